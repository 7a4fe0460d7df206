package workflow

// Trigger determines which ends of its parents let a node run.
type Trigger uint8

// The triggers.
const (
	AllSuccess Trigger = iota
	NoneFailed
	NoneFailedMinOneSuccess
	AnySuccess
	AllDone
	AllFailed
	OneSuccess
	OneDone
	OneFailed
)

var triggerNames = [...]string{
	"all_success", "none_failed", "none_failed_min_one_success", "any_success", "all_done", "all_failed", "one_success", "one_done", "one_failed",
}

var triggerAliases = map[string]Trigger{"": AllSuccess, "success": AllSuccess, "always": AllDone, "failure": OneFailed}

const wantTrigger = "one of all_success, none_failed, none_failed_min_one_success, any_success, all_done, all_failed, one_success, one_done, one_failed, success, failure, always"

func (t Trigger) String() string { return triggerNames[t] }

// ParseTrigger parses the name of a trigger or one of its aliases: success, failure, always. "" is all_success.
func ParseTrigger(s string) (Trigger, bool) {
	for i, name := range triggerNames {
		if s == name {
			return Trigger(i), true
		}
	}
	t, ok := triggerAliases[s]
	return t, ok
}

// Eager reports whether the trigger may hold before all parents have ended.
func (t Trigger) Eager() bool { return t >= OneSuccess }

// handles reports whether the trigger makes a node a handler of failures.
func (t Trigger) handles() bool { return t == OneFailed || t == AllFailed }

// needsParents reports whether a node without parents would never run.
func (t Trigger) needsParents() bool {
	return t.Eager() || t == AllFailed || t == AnySuccess || t == NoneFailedMinOneSuccess
}

// class is how a parent ended, as triggers see it. Classes are bits, so that a node knows which it has seen.
type class uint8

const (
	good class = 1 << iota
	skipped
	stopped
	bad
)

// verdict is the decision of a trigger.
type verdict uint8

const (
	undecided verdict = iota
	run
	skip
	notRun        // a parent is bad
	notRunStopped // a parent is stopped, and none is bad
)

// judge returns the verdict on a node that has seen these classes and waits for left more parents.
func (t Trigger) judge(seen class, unmet int) verdict {
	switch t { // what does not wait for all
	case OneSuccess:
		if seen&good != 0 {
			return run
		}
	case OneDone:
		if seen&(good|bad) != 0 {
			return run
		}
	case OneFailed:
		if seen&bad != 0 {
			return run
		}
	case AllSuccess, NoneFailed, NoneFailedMinOneSuccess, AnySuccess, AllDone, AllFailed:
	}
	if unmet > 0 {
		return undecided
	}
	switch t {
	case AllSuccess:
		if seen&^good == 0 {
			return run
		}
	case NoneFailed:
		if seen&(bad|stopped) == 0 {
			return run
		}
	case NoneFailedMinOneSuccess:
		if seen&(bad|stopped) == 0 && seen&good != 0 {
			return run
		}
	case AnySuccess:
		if seen&good != 0 {
			return run
		}
	case AllDone:
		return run
	case AllFailed:
		if seen == bad {
			return run
		}
		return skip
	case OneDone, OneFailed:
		return skip
	case OneSuccess:
	}
	switch {
	case seen&bad != 0:
		return notRun
	case seen&stopped != 0:
		return notRunStopped
	}
	return skip
}
