package sqlstore

// Statements are those that grow with data and must find their rows by an index; each engine's tests look at their plans.
var Statements = map[string]string{
	"put calendar": putCalendarSQL, "calendar": calendarsSQL + " AND name = $2", "calendars": calendarsSQL + " ORDER BY name",
	"operation": operationSQL, "save operation": saveOperationSQL, "cancel operation": cancelOperationSQL,
	"set limit": setLimitSQL, "drop badges": dropBadgesSQL, "find badges": findBadgesSQL, "count badges": countBadgesSQL,
	"keep minute": keepMinuteSQL, "minutes": minutesSQL, "keep trace": keepTraceSQL, "traces": tracesSQL,
	"tenant minutes": tenantMinutesSQL, "job months": jobMonthsSQL, "keep depths": keepDepthsSQL, "depths": depthsSQL,
	"failures": failuresSQL, "revisions": revisionsSQL, "found secrets": foundSecretsSQL,
}

// JobFailures sorts a week of one job's failures, and TakeOperation walks what runs.
const (
	JobFailures   = jobFailuresSQL
	TakeOperation = takeOperationSQL
)
