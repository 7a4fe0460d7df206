//go:build unix

package sizes

import (
	"reflect"
	"slices"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// still are the calls that do not grow with what there is, with the reason. Whoever adds a call to a port adds it here or to calls.
var still = map[string]string{
	"Unpack": byKey, "Park": byKey, "Rerun": byKey, "Execution": byKey, "Attempts": byKey, "Events": byKey, "Postpone": byKey, "Discard": byKey,
	"AppendLogs": byKey, "Logs": byKey, "LogLines": byKey, "Draw": byKey, "Charge": byKey, "KeepTally": byKey,
	"DeadLetters": budget, "DeadErrors": budget, "Unwell": budget, "ForgetHistory": budget, "ForgetJobs": budget, "ForgetOwn": budget, "Retentions": byKey,

	"CreateTenant": byKey, "UpdateTenant": byKey, "SetLimit": byKey, "PauseQueue": byKey, "HasTenant": byKey, "Tenants": few, "Limits": few, "Reaches": few,
	"Bootstrap": byKey, "Key": byKey, "AddKey": few, "RotateKey": few, "Keys": few, "KeyOf": byKey, "RevokeKey": byKey, "ExpireKey": byKey, "UseKeys": byKey,
	"AddSignIn": few, "SignIn": byKey, "FindSignIns": budget, "EndSignIn": byKey, "UseSignIns": byKey,
	"ResealSecret": byKey, "AddSigningSecret": few, "SeedSigningSecret": few, "ShowSigningSecret": byKey, "SigningSecrets": few, "DeleteSigningSecret": few,
	"ResealSigningSecret": byKey, "Share": byKey, "Reshare": byKey,
	"PutCalendar": byKey, "Calendar": byKey, "Calendars": few, "DeleteCalendar": byKey,
	"PutRule": few, "Rule": byKey, "Rules": few, "DeleteRule": byKey, "Alarms": alarmed, "SetAlarms": byKey, "Watched": byKey, "SetWatched": byKey,
	"AddHold": few, "Holds": few, "DeleteHold": byKey, "AddBadge": few, "Badge": byKey, "FindBadges": budget, "DeleteBadge": byKey,
	"AddOperation": byKey, "Operation": byKey, "FindOperations": budget, "TakeOperation": byKey, "SaveOperation": byKey, "CancelOperation": byKey,
	"Record": byKey, "AuditEntries": budget, "SealAudit": budget, "AuditSeals": byKey, "StrayEntry": byKey, "Unsealed": budget,
	"KeepMinutes": byKey, "Minutes": days, "TenantMinutes": days, "KeepDepths": byKey, "Depths": days, "JobDays": days, "Failures": budget, "Revisions": few,
	"BeginRuns": byKey, "FinishNodes": together, "AddWorkflow": byKey, "WorkflowVersion": byKey, "WorkflowVersions": budget, "NodeResults": byKey,

	"Dependencies": few, "Above": few, "Dependants": few, "MarkedChildren": byKey, "FoldTokens": byKey, "RunErrors": byKey, "Answered": byKey, "Answer": byKey,
	"BeginBlob": byKey, "PutChunks": byKey, "EndBlob": byKey, "Blob": byKey, "Chunks": byKey, "FindBlobs": byKey, "DropBlob": byKey, "SweepBlobs": byKey,

	"KeepTraces": byKey, "Traces": byKey,

	"TakeArchive": byKey, "NoteArchive": byKey, "ArchiveNote": byKey, "BeginFile": byKey, "ProveFile": byKey, "SettleFile": byKey, "RetireFile": byKey, "StrikeFile": byKey,
	"ArchiveFiles": budget, "FinishedDays": days, "ReadDay": day, "LeaveDay": day, "DropArchived": byKey, "LateEvents": byKey,
}

const (
	byKey    = "it reads and writes what it is given the ids of, or the first of an index"
	few      = "a limit bounds how many there are"
	together = "it does what Finish and ChangeRuns do, which are measured"
	budget   = "it stops after so many rows or so much time; make bench-pages measures it over millions"
	alarmed  = "it lists as many as jobs that a rule has told of; with very many of these it is not measured"
	day      = "it goes through one day of history, with a time limit of its own, and is not measured here"
	days     = "what it reads is kept for so many days, whatever happens in them"
)

// Every call of the ports is measured, or there is a reason why it need not be.
func TestEveryCall(t *testing.T) {
	var made []string
	for _, c := range slices.Concat(runCalls, calls) {
		made = append(made, c.method)
	}
	var known []string
	for _, port := range []reflect.Type{reflect.TypeFor[engine.Hot](), reflect.TypeFor[engine.Settings]()} {
		for i := range port.NumMethod() {
			name := port.Method(i).Name
			known = append(known, name)
			_, is := still[name]
			if measured := slices.Contains(made, name); measured == is {
				t.Errorf("%s is in calls: %v, and in still: %v; want it in one of them", name, measured, is)
			}
		}
	}
	for name := range still {
		if !slices.Contains(known, name) {
			t.Errorf("still has %s, which no port has", name)
		}
	}
}
