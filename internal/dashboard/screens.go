package dashboard

// Screen is an address at which there is a page.
type Screen struct {
	Path string // a pattern of http.ServeMux
	API  string // the path of the API that tells the same as JSON; "" where there is none
}

// Screens are all of them.
var Screens = []Screen{
	{"/{$}", "/api/v1/overview"},
	{"/jobs", "/api/v1/jobs"},
	{"/jobs/new", ""},
	{"/jobs/{id}", "/api/v1/jobs/{id}"},
	{"/jobs/{id}/{part}", "/api/v1/jobs/{id}"},
	{"/executions", "/api/v1/executions"},
	{"/executions/{id}", "/api/v1/executions/{id}"},
	{"/executions/{id}/{part}", "/api/v1/executions/{id}"},
	{"/dead-letters", "/api/v1/dead-letters"},
	{"/queues", "/api/v1/admin/queue/status"},
	{"/queues/{name}", ""},
	{"/workers", "/api/v1/workers"},
	{"/workers/{id}", ""},
	{"/forecast", "/api/v1/forecast"},
	{"/operations", "/api/v1/operations"},
	{"/operations/{id}", "/api/v1/operations/{id}"},
	{"/admin", "/api/v1/quotas"},
	{"/admin/{part...}", ""},
	{"/sign-in", ""},
}
