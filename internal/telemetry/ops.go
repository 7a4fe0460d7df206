package telemetry

import (
	"context"
	"errors"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// op is a group of store calls with its own label.
type op uint8

const (
	opAccess op = iota
	opAdvance
	opArchive
	opBlobs
	opCancel
	opCharge
	opCreate
	opDraw
	opDue
	opFind
	opFinish
	opFire
	opHeld
	opLease
	opLogs
	opOperate
	opReady
	opReap
	opRegister
	opRelease
	opRenew
	opSettings
	opTrace
	opTrigger
	opUpdate
	opUpkeep
	opCount
)

// opNames are the values of the label op.
var opNames = [opCount]string{
	opAccess:   "access",
	opAdvance:  "advance",
	opArchive:  "archive",
	opBlobs:    "blobs",
	opCancel:   "cancel",
	opCharge:   "charge",
	opCreate:   "create",
	opDraw:     "draw",
	opDue:      "due",
	opFind:     "find",
	opFinish:   "finish",
	opFire:     "fire",
	opHeld:     "held",
	opLease:    "lease",
	opLogs:     "logs",
	opOperate:  "operate",
	opReady:    "ready",
	opReap:     "reap",
	opRegister: "register",
	opRelease:  "release",
	opRenew:    "renew",
	opSettings: "settings",
	opTrace:    "trace",
	opTrigger:  "trigger",
	opUpdate:   "update",
	opUpkeep:   "upkeep",
}

// calls lists the methods of the store that each op counts, except those of Store itself.
var calls = map[op][]engine.Method{
	opAccess:   {"Bootstrap", "Key", "AddKey", "RotateKey", "Keys", "KeyOf", "RevokeKey", "ExpireKey", "UseKeys", "HasTenant", "AddSignIn", "SignIn", "FindSignIns", "EndSignIn", "UseSignIns", "PastSecrets", "AddBadge", "Badge", "FindBadges", "DeleteBadge", "AddHold", "Holds", "DeleteHold"},
	opAdvance:  {"WakeRuns", "SendEvent", "Answer", "MarkedChildren", "FoldTokens"},
	opArchive:  {"TakeArchive", "NoteArchive", "ArchiveNote", "BeginFile", "ProveFile", "SettleFile", "RetireFile", "StrikeFile", "FinishedDays", "ReadDay", "LeaveDay", "DropArchived"},
	opBlobs:    {"BeginBlob", "PutChunks", "EndBlob", "Chunks", "DropBlob"},
	opCharge:   {"Charge"},
	opCreate:   {"CreateJobs"},
	opDue:      {"Due", "Ahead"},
	opFind:     {"Job", "FindJobs", "Stats", "Worker", "Workers", "Execution", "FindExecutions", "Attempts", "DeadLetters", "Events", "LastStatus", "Whose", "Recent", "Names", "Retentions", "LateJobs", "DeadErrors", "Census", "Sizes", "Logs", "LogLines", "CountJobs", "Operation", "FindOperations", "Blob", "FindBlobs", "ArchiveFiles", "LateEvents", "AuditEntries", "AuditSeals", "StrayEntry", "Unsealed", "Minutes", "TenantMinutes", "Depths", "JobDays", "Failures", "Revisions", "WorkflowVersion", "WorkflowVersions", "WorkflowUsers", "WorkflowRun", "WorkflowRuns", "Members", "NodeMembers", "MemberOf", "RunResults", "RunErrors", "Dependencies", "Above", "Dependants", "NodeResults", "RunWaits", "NodeSpans", "Approvals", "EventWaits", "Answered"},
	opHeld:     {"Held", "Leased"},
	opLogs:     {"AppendLogs"},
	opOperate:  {"Discard", "AddOperation", "TakeOperation", "SaveOperation", "CancelOperation"},
	opReady:    {"Lanes", "Ready", "Unpack", "CountDue", "Running"},
	opRegister: {"Register", "Drain"},
	opRenew:    {"Renew"},
	opSettings: {"Cordon", "Cordoned", "CalendarUsers", "SecretsOf", "CreateTenant", "Tenants", "UpdateTenant", "SetLimit", "Limits", "PauseQueue", "Reaches", "PutSecret", "Secret", "Secrets", "SealedSecrets", "SecretStamp", "LackSecrets", "DeleteSecret", "SecretKeys", "SecretsNotUnder", "ResealSecret", "AddSigningSecret", "SeedSigningSecret", "ShowSigningSecret", "SigningSecrets", "DeleteSigningSecret", "ResealSigningSecret", "Share", "Reshare", "AddWorkflow", "PutCalendar", "Calendar", "Calendars", "DeleteCalendar", "PutRule", "Rule", "Rules", "DeleteRule", "Record"},
	opTrace:    {"KeepTraces", "Traces"},
	opTrigger:  {"Trigger", "Backfill", "Rerun"},
	opUpdate:   {"UpdateJob"},
	opUpkeep:   {"Resumable", "Settle", "Overrun", "Redrivable", "Postpone", "Unwell", "Late", "NewApprovals", "Tidy", "ForgetHistory", "ForgetRuns", "ForgetJobs", "ForgetOwn", "ForgetEvents", "SweepBlobs", "KeepTally", "Alarms", "SetAlarms", "Watched", "SetWatched", "SealAudit", "KeepMinutes", "KeepDepths"},
}

// opOf maps each method to its op.
var opOf = func() map[engine.Method]op {
	out := map[engine.Method]op{}
	for o, ms := range calls {
		for _, m := range ms {
			out[m] = o
		}
	}
	return out
}()

// broken reports whether an error means that the store failed: most are answers.
func broken(err error) bool {
	for _, answer := range []error{engine.ErrNotFound, engine.ErrConflict, engine.ErrSession, engine.ErrFull, engine.ErrCursor, context.Canceled} {
		if errors.Is(err, answer) {
			return false
		}
	}
	var spent *engine.Spent
	return !errors.As(err, &spent)
}
