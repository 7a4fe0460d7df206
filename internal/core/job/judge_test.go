package job

import "testing"

func TestJudge(t *testing.T) {
	a, b := WorkerID{1}, WorkerID{2}
	failed := Past{Tenant: "t", Failed: true, Holder: a}
	over := Past{Tenant: "t", Failed: true, Status: Failed, Holder: a}
	done := Past{Tenant: "t", Status: Succeeded, Holder: a}
	for name, c := range map[string]struct {
		past Past
		says OutcomeStatus
		by   WorkerID
		want string // why it is refused; "": it is accepted
	}{
		"nothing is known":                  {Past{}, OutcomeSucceeded, a, RefusedUnknown},
		"the same success":                  {done, OutcomeSucceeded, a, ""},
		"the same success, by a server":     {done, OutcomeSucceeded, WorkerID{}, ""},
		"another's success":                 {done, OutcomeSucceeded, b, RefusedUnknown},
		"a failure after a success":         {done, OutcomeFailed, a, RefusedStale},
		"the same failure":                  {failed, OutcomeFailed, a, ""},
		"another's failure":                 {failed, OutcomeFailed, b, RefusedUnknown},
		"another's last failure":            {over, OutcomeFailed, b, RefusedUnknown},
		"a success after a failure":         {failed, OutcomeSucceeded, a, RefusedStale},
		"what was lost":                     {Past{Tenant: "t", Lost: true, Status: Failed, Holder: a}, OutcomeFailed, a, RefusedStale},
		"a stop of what was lost":           {Past{Tenant: "t", Lost: true, Status: Cancelled, Holder: a}, OutcomeCancelled, a, RefusedStale},
		"a snooze":                          {Past{Tenant: "t", Snoozed: true, Holder: a}, OutcomeSnoozed, a, ""},
		"a failure after a snooze":          {Past{Tenant: "t", Snoozed: true, Holder: a}, OutcomeFailed, a, RefusedStale},
		"a stop":                            {Past{Tenant: "t", Status: Cancelled, Holder: a}, OutcomeCancelled, a, ""},
		"a stop of what failed":             {Past{Tenant: "t", Status: Cancelled, Failed: true, Holder: a}, OutcomeCancelled, a, RefusedStale},
		"a skip":                            {Past{Tenant: "t", Status: Skipped, Holder: a}, OutcomeSkipped, a, ""},
		"a skip of what succeeded":          {done, OutcomeSkipped, a, RefusedStale},
		"a skip after a failure":            {failed, OutcomeSkipped, a, RefusedStale},
		"a success after a skip":            {Past{Tenant: "t", Status: Skipped, Holder: a}, OutcomeSucceeded, a, RefusedStale},
		"a target that was quicker":         {done, OutcomeParked, a, ""},
		"parked, and nothing came of it":    {Past{Tenant: "t", Holder: a}, OutcomeParked, a, RefusedStale},
		"a worker of another tenant":        {Past{Tenant: "t", Status: Succeeded, Serves: "u"}, OutcomeSucceeded, a, RefusedUnknown},
		"a worker of the tenant":            {Past{Tenant: "t", Status: Succeeded, Serves: "t"}, OutcomeSucceeded, a, ""},
		"a lease of which nothing was kept": {Past{Tenant: "t"}, OutcomeSucceeded, a, RefusedStale},
	} {
		f := &Finish{Outcome: Outcome{Status: c.says}, Worker: c.by}
		if v := Judge(c.past, f); v.Reason != c.want || v.Accepted != (c.want == "") || v.Repeated != v.Accepted {
			t.Errorf("%s: %+v", name, v)
		}
	}
	v := Judge(over, &Finish{Outcome: Outcome{Status: OutcomeFailed}, Then: Transition{Status: Retrying}, Worker: a})
	if v.Ended != Failed {
		t.Errorf("what was to be tried again, and ended: %+v", v)
	} // A server that no longer sees the lease can only decide on an end.
	dies := Transition{Move: Died, Status: Failed}
	for says, c := range map[OutcomeStatus]struct {
		past Past
		want Transition
	}{
		OutcomeFailed:  {failed, Transition{Move: Again, Status: Retrying}},
		OutcomeSnoozed: {Past{Tenant: "t", Snoozed: true, Holder: a}, Transition{Move: Snoozed, Status: Pending}},
	} {
		f := &Finish{Outcome: Outcome{Status: says}, Then: dies, Worker: a}
		v := Judge(c.past, f)
		if got := f.Came(&v); got != c.want {
			t.Errorf("%v, which continued, came to %+v, want %+v", says, got, c.want)
		}
	}
	f := &Finish{Outcome: Outcome{Status: OutcomeFailed}, Then: dies, Worker: a}
	if v := Judge(over, f); f.Came(&v) != dies {
		t.Errorf("the last failure came to %+v", f.Came(&v))
	}
}
