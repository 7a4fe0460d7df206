package sqlstore

import "fmt"

// Statements lists those that grow with data and must find their rows by an index; each engine's tests check their
// plans.
var Statements = map[string]string{
	"put calendar": putCalendarSQL, "calendar": calendarsSQL + " AND name = $2", "calendars": calendarsSQL + " ORDER BY name",
	"operation": operationSQL, "save operation": saveOperationSQL, "cancel operation": cancelOperationSQL,
	"set limit": setLimitSQL, "drop badges": dropBadgesSQL, "find badges": findBadgesSQL, "count badges": countBadgesSQL,
	"keep minute": keepMinuteSQL, "minutes": minutesSQL, "keep trace": keepTraceSQL, "traces": tracesSQL,
	"tenant minutes": tenantMinutesSQL, "job months": jobMonthsSQL, "keep depths": keepDepthsSQL, "depths": depthsSQL,
	"failures": failuresSQL, "revisions": revisionsSQL, "found secrets": foundSecretsSQL,
	"writing blob": writingBlobSQL, "end blob": endBlobSQL, "blob": blobSQL, "find blobs": findBlobsSQL, "chunks": chunksSQL, "drop blob": dropBlobSQL, "sweep chunks": sweepChunksSQL, "delete empty blob": deleteEmptySQL,
	"workflow version": versionSQL, "workflow versions": versionsSQL, "lengths of versions": lengthsSQL, "workflow users": usersSQL, "usable job": usableSQL, "left events": leftEventsSQL, "drop use": dropUseSQL,
	"edges": edgesSQL, "above": aboveSQL, "edges to": edgesToSQL, "dependants": dependantsSQL, "dependant": dependantSQL, "drop edge": dropEdgeSQL, "drop edges": dropEdgesSQL, "reset tokens": resetSQL,
	"drop token marks": dropTokenMarks, "token marks": tokenMarksSQL, "put token": putTokenSQL, "marked children": markedChildrenSQL,
	"free dependent": freeDependent, "waiting child": waitingChildSQL, "taken key": takenKeySQL,
	"old executions": oldExecutionsSQL, "drop executions": dropExecutionsSQL, "drop attempts": dropWith[0], "drop events": dropWith[1], "drop logs": dropWith[2], "drop dead letters": dropWith[3], "drop traces": dropWith[4],
	"ended runs": endedRunsSQL, "lock run": lockRunSQL, "drop members": dropMembersSQL, "drop results": dropSomeSQL, "drop tries": dropTriesSQL,
	"retentions": retentionsSQL, "own kept": ownKeptSQL, "own runs": ownRunsSQL, "own executions": ownExecutionsSQL, "own fire": ownFireSQL,
	"change retention": changeRetentionSQL, "drop retention": dropRetentionSQL, "any share": anyShareSQL,
	"find holds": findHoldsSQL, "tenant held": tenantHeldSQL, "job held": jobHeldSQL, "same hold": sameHoldSQL, "drop hold": dropHoldSQL, "holdable": holdableSQL,
	"aged jobs": agedJobsSQL, "lock jobs": lockJobsSQL, "spent jobs": spentJobsSQL, "defined": definedSQL, "drop schedule": dropScheduleSQL,
}

func init() {
	for i, sql := range dropJobs {
		Statements[fmt.Sprintf("drop of jobs %d", i)] = sql
	}
}

// JobFailures sorts a week of one job's failures, and TakeOperation walks the running ones.
const (
	JobFailures   = jobFailuresSQL
	TakeOperation = takeOperationSQL
)
