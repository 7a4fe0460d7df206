package dashboard

import "strings"

// Screen is an address at which there is a page.
type Screen struct {
	Path string // a pattern of http.ServeMux
	API  string // the path of the API that returns the same as JSON; "" if there is none
	One  string // if the screen shows one element of a list in that answer: the list, and the field that identifies one

	Parts map[string]string // the paths of the API for the parts of a screen that has some
}

// AdminParts is the address of the parts of the screen Admin.
const AdminParts = "/admin/{part...}"

// AdminPart reports whether there is a page for a part of the screen Admin at an address.
func AdminPart(path string) bool {
	part, _, _ := strings.Cut(strings.TrimPrefix(path, "/admin/"), "/")
	for _, s := range Screens {
		if _, ok := s.Parts[part]; ok && strings.HasPrefix(path, "/admin/") {
			return true
		}
	}
	return path == "/admin/settings"
}

// Screens lists all screens.
var Screens = []Screen{
	{Path: "/{$}", API: "/api/v1/overview"},
	{Path: "/jobs", API: "/api/v1/jobs"},
	{Path: "/jobs/new"},
	{Path: "/jobs/{id}", API: "/api/v1/jobs/{id}"},
	{Path: "/jobs/{id}/{part}", API: "/api/v1/jobs/{id}"},
	{Path: "/workflows", API: "/api/v1/workflows"},
	{Path: "/workflows/{id}", API: "/api/v1/workflows/{id}"},
	{Path: "/workflow-runs/{id}", API: "/api/v1/workflow-runs/{id}"},
	{Path: "/approvals", API: "/api/v1/approvals"},
	{Path: "/executions", API: "/api/v1/executions"},
	{Path: "/executions/{id}", API: "/api/v1/executions/{id}"},
	{Path: "/executions/{id}/{part}", API: "/api/v1/executions/{id}"},
	{Path: "/dead-letters", API: "/api/v1/dead-letters"},
	{Path: "/queues", API: "/api/v1/admin/queue/status"},
	{Path: "/queues/{id}", API: "/api/v1/admin/queue/status", One: "queues queue"},
	{Path: "/workers", API: "/api/v1/workers"},
	{Path: "/workers/{id}", API: "/api/v1/workers", One: "workers worker_id"},
	{Path: "/forecast", API: "/api/v1/forecast"},
	{Path: "/operations", API: "/api/v1/operations"},
	{Path: "/operations/{id}", API: "/api/v1/operations/{id}"},
	{Path: "/admin", API: "/api/v1/quotas"},
	{Path: AdminParts, Parts: map[string]string{
		"tenants": "/api/v1/tenants", "keys": "/api/v1/api-keys", "sign-ins": "/api/v1/sign-ins", "secrets": "/api/v1/secrets", "signing": "/api/v1/signing-secrets", "badges": "/api/v1/badges", "notifications": "/api/v1/notification-rules",
		"calendars": "/api/v1/calendars", "limits": "/api/v1/limits", "operations": "/api/v1/operations", "audit": "/api/v1/audit",
	}},
	{Path: "/sign-in"},
}
