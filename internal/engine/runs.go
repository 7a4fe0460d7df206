package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Runs stores the runs of workflows. A run is the execution of a job whose target is a workflow. Its nodes are
// executions too, called members: the commit that ends a member leaves a mark, and whoever takes marks decides what
// follows and commits the decision: FinishNodes in the commit that ended the member, ChangeRuns later.
type Runs interface {
	// BeginRuns stores runs and what their first decisions start, and parks their executions, so that nobody takes these back while there
	// is a run: all in one transaction. It answers in order. If a run is stored already, it notes the lease under which the run's
	// execution is held now, changes nothing else, and answers with what is stored.
	BeginRuns(ctx context.Context, all []NewRun) ([]Begun, error)
	// ChangeRuns locks runs, has decide say what changes in each, and commits that, all in one transaction. Marks that decide was
	// given are gone afterwards. Runs that do not exist are left out; marks that name one go with the execution that it was of. Where decide fails, the run stays as it was, marks included, and
	// the error is in its answer. The store may call decide again for a transaction that had to be repeated.
	ChangeRuns(ctx context.Context, ids []job.ExecutionID, decide Decide) ([]RunChanged, error)
	// FinishNodes applies transitions as Finish does, and in the same transaction has decide say what follows in the runs whose members
	// ended, as ChangeRuns does. Runs that somebody else holds locked are left out, and so are those where decide fails: they keep
	// their marks. The verdicts name the runs that got marks, decided or not.
	FinishNodes(ctx context.Context, fs []job.Finish, decide Decide) ([]job.Verdict, []RunChanged, error)
	// WakeRuns lists runs that somebody must look after, up to limit of each kind: those with marks older than a second, those that were
	// asked to stop, to pause or to go on, and those whose waits are due. It is the way back from a lost hint. It also goes on with events
	// older than a second that have not woken all waits that they match, because whoever sent them has died; if that fails, it lists the
	// others nevertheless. Next is the instant at which a wait will be due next; zero: there is none.
	WakeRuns(ctx context.Context, limit int) (due []job.ExecutionID, next time.Time, err error)
	// WorkflowRun finds a run by the id of any of its attempts; ErrNotFound also for another tenant's.
	WorkflowRun(ctx context.Context, t tenant.ID, id job.ExecutionID) (WorkflowRun, error)
	// WorkflowRuns lists runs, latest scheduled time first, without their states, inputs and outputs: also those that wait to begin, or
	// ended without. Of these the version is 0 and BegunAt zero.
	WorkflowRuns(ctx context.Context, f RunFilter, p Page) (Listed[WorkflowRun], error)
	// Members lists up to limit executions of nodes, in the order of their places, from one place up to another. If a
	// place ran more than once, only its latest execution is listed.
	Members(ctx context.Context, t tenant.ID, run job.ExecutionID, from, until NodePlace, limit int) ([]Member, error)
	// NodeMembers lists the latest executions of nodes that are not maps, at most one for each, in the order of their
	// places.
	NodeMembers(ctx context.Context, t tenant.ID, run job.ExecutionID, nodes []int) ([]Member, error)
	// MemberOf finds the member that an execution is; ErrNotFound if it belongs to no run.
	MemberOf(ctx context.Context, t tenant.ID, id job.ExecutionID) (Member, error)
	// RunResults lists the results that a run keeps, in the order of their places, from one place up to another.
	RunResults(ctx context.Context, t tenant.ID, run job.ExecutionID, from, until NodePlace) ([]RunResult, error)
	// NodeSpans lists when maps and waits of a run began and ended, in the order of their numbers.
	NodeSpans(ctx context.Context, t tenant.ID, run job.ExecutionID) ([]NodeSpan, error)
	// NodeResults lists the results at a run's places, in their order, from one up to another: those that the run keeps, else those of
	// the latest executions, as far as these succeeded and finished since an instant. Size is how many bytes they have together; if that
	// is more than most, none is listed.
	NodeResults(ctx context.Context, q ResultQuery, most int64) (rs []RunResult, size int64, err error)
	// RunErrors lists the errors at a run's places, in their order: those that the run keeps, and those of the latest executions. A place
	// without an error is left out.
	RunErrors(ctx context.Context, q ErrorQuery) ([]RunResult, error)
	// RunWaits lists what a run waits for.
	RunWaits(ctx context.Context, t tenant.ID, run job.ExecutionID) ([]RunWait, error)
	// Approvals lists up to limit approvals that a tenant's runs wait for, oldest first, without their votes. It lists fewer if their schemas
	// have PageBytes, where those of one node of one version count once.
	Approvals(ctx context.Context, t tenant.ID, limit int) ([]OpenApproval, error)
	// NewApprovals lists up to limit approvals that a tenant's runs wait for and that come after one in the order of beginning, run and node,
	// without their votes and schemas.
	NewApprovals(ctx context.Context, t tenant.ID, after RunWait, limit int) ([]RunWait, error)
	// Answered finds the answer of an earlier request with an idempotency key, so that an act on a run that was done is not judged once more.
	// It is the zero value if there was none.
	Answered(ctx context.Context, t tenant.ID, i Idempotency) (Created, error)
	// Answer replaces the draft that a request left under its idempotency key with the answer, or keeps the answer under a key that is not
	// known. It returns the answer that counts: that of another call if it came first.
	Answer(ctx context.Context, t tenant.ID, i Idempotency, draft []byte) ([]byte, error)
	// SendEvent keeps an event for waits that begin later, and lists the runs with a wait that it matches. It stores no event whose id or
	// idempotency key it knows.
	SendEvent(ctx context.Context, ev RunEvent, once EventOnce, e *audit.Entry) (SentEvent, error)
	// EventWaits lists up to limit runs with a wait that an event would match.
	EventWaits(ctx context.Context, t tenant.ID, name string, match []byte, limit int) ([]job.ExecutionID, error)
	// ForgetEvents drops up to limit events of all tenants that are older than EventAge and have woken all waits that they match. It reports
	// how many.
	ForgetEvents(ctx context.Context, limit int) (int, error)
}

// Decide returns what changes in a run. A nil change leaves it as it is, but takes its marks.
type Decide func(RunView) (*RunChange, error)

// RunView is the input of a decision.
type RunView struct {
	Run    WorkflowRun
	Marks  []RunMark // up to MarksAtOnce
	Waits  []RunWait
	Now    time.Time // by the store's clock
	Reader RunReader
}

// RunReader reads more of a run while a decision is made.
type RunReader interface {
	// Results lists the results of a node: one or, for a map, one for each item that has one.
	Results(run job.ExecutionID, node int) ([]RunResult, error)
	// Event finds the oldest event since an instant that matches; nil: there is none.
	Event(t tenant.ID, name string, match []byte, since time.Time) (*RunEvent, error)
}

// MarksAtOnce limits the marks of one run that one decision takes.
const MarksAtOnce = 1000

// NodePlace identifies the node, and the item of a map, that an execution belongs to.
type NodePlace int64

const itemBits = 24

// Places of marks that ask something of the run itself.
const (
	AskedToStop  NodePlace = -1 // it is to be cancelled
	AskedToForce NodePlace = -2 // it is to be cancelled with force
)

// AskedToPause is the place of a mark that says whether the run is to be paused, by the status WAITING, or to go on, by RUNNING. Of several marks, the one of the
// greatest seq counts: that of the change by which the run above was paused or went on.
func AskedToPause(seq int64) NodePlace { return NodePlace(-16 - seq) }

// PlaceOf returns the place of a node, or of an item of its map; item is -1 if the node is not a map.
func PlaceOf(node, item int) NodePlace { return NodePlace(node)<<itemBits | NodePlace(item+1) }

// Node returns the node's number.
func (p NodePlace) Node() int { return int(p >> itemBits) }

// Item returns the number of the item; -1: the node is not a map.
func (p NodePlace) Item() int { return int(p&(1<<itemBits-1)) - 1 }

// WorkflowRun is the state of a run.
type WorkflowRun struct {
	ID          job.ExecutionID // of its first attempt's execution
	Execution   job.ExecutionID // of its current attempt
	Token       job.Token       // under which that one is held
	Tenant      tenant.ID
	Workflow    job.ID
	Version     int
	Attempt     int
	Status      int    // a workflow.Status
	State       []byte // workflow.State, encoded
	Input       []byte // JSON
	Output      []byte // JSON
	Error       *job.Error
	ScheduledAt time.Time
	BegunAt     time.Time
	EndedAt     time.Time // zero: not yet
	Seq         int64     // counts its changes
}

// RunMark records the end of a member that its run does not know of yet.
type RunMark struct {
	Execution  job.ExecutionID
	Place      NodePlace // negative: something is asked of the run itself
	Status     job.Status
	StartedAt  time.Time
	FinishedAt time.Time
	Result     []byte
	Error      *job.Error
}

// Member is an execution of a node.
type Member struct {
	Run        job.ExecutionID
	Execution  job.ExecutionID
	Place      NodePlace
	Attempt    int // of the run
	Status     job.Status
	CreatedAt  time.Time
	StartedAt  time.Time
	FinishedAt time.Time
}

// RunResult is the result of a node, or of an item of a map.
type RunResult struct {
	Place  NodePlace
	Result []byte // JSON; nil: none
	Error  *job.Error
}

// NodeSpan is when a node without its own execution, a map or a wait, began and ended.
type NodeSpan struct {
	Node       int
	StartedAt  time.Time
	FinishedAt time.Time // zero: not yet
}

// ResultQuery selects results of a run.
type ResultQuery struct {
	Tenant      tenant.ID
	Run         job.ExecutionID
	From, Until NodePlace
	Since       time.Time // executions that finished earlier are not read
}

// ErrorQuery chooses errors of a run.
type ErrorQuery struct {
	Tenant  tenant.ID
	Run     job.ExecutionID
	Attempt int // of the run: the error of an execution of this one goes before what the run keeps
	Places  []NodePlace
	Since   time.Time // executions that finished earlier are not looked at
}

// WaitKind says what a wait is for.
type WaitKind int

// The kinds. Their numbers are stored; never renumber them.
const (
	WaitTimer    WaitKind = 1
	WaitApproval WaitKind = 2
	WaitEvent    WaitKind = 3
	WaitDeadline WaitKind = 4 // the node must have ended by then; with RunDeadline as its node, the run
	WaitMore     WaitKind = 5 // a map has more items to start than one commit should
	WaitStop     WaitKind = 6 // a node has more executions to cancel than one commit should; Event is the place that the last one was at
)

// RunDeadline stands for the node of the run's own deadline.
const RunDeadline = -1

// RunWait is something that a run waits for.
type RunWait struct {
	Run     job.ExecutionID
	Tenant  tenant.ID
	Node    int
	Kind    WaitKind
	BegunAt time.Time
	WakeAt  time.Time // when somebody must look at it; zero: when something happens
	Event   string
	Match   []byte // what the event must carry, in the form of workflow.OpenWait; nil: anything
	Until   time.Time
	Votes   []byte // JSON
	Voters  []byte // JSON: who has voted
	Asks    []byte // JSON: a workflow.Asked, of an approval
	Schema  []byte // of an approval. It is stored with a wait that begins, and only Approvals reads it
}

// OpenApproval is an approval that a run waits for, and the version of the workflow that defines who decides.
type OpenApproval struct {
	RunWait
	Workflow job.ID
	Version  int
}

// RunEvent is an event that somebody sent.
type RunEvent struct {
	ID      [16]byte
	Tenant  tenant.ID
	Name    string
	Match   []byte
	Payload []byte
	At      time.Time
}

// EventOnce makes the sending of an event safe to repeat; the zero value does not.
type EventOnce struct {
	Idempotency                                                  // without the answer
	Make        func(id [16]byte, runs []job.ExecutionID) []byte // makes the answer
}

// SentEvent is the result of sending an event. If the request was answered before, or its key used with another one, Created says so and the
// rest is zero.
type SentEvent struct {
	Created
	ID   [16]byte // the event's; that of the first request where this one completes what that began
	Runs []job.ExecutionID
}

// EventAge is how long an event counts for waits that begin after it.
const EventAge = 24 * time.Hour

// WokenAtOnce bounds the runs whose waits for an event one commit wakes.
const WokenAtOnce = 1000

// RunChange is the change that a decision makes.
type RunChange struct {
	Version int
	Attempt int
	Status  int
	State   []byte
	Input   []byte
	Output  []byte
	Error   *job.Error
	Ended   bool

	Members  []NewMember
	Results  []RunResult
	Renumber map[int]int // new numbers of nodes in another version, by the old; -1: none
	Forget   []int       // nodes whose results are dropped first
	Began    []int       // maps and waits that begin
	Over     []int       // maps and waits that end
	Waits    []RunWait
	Closed   []RunWait // Node and Kind say which
	Cancel   []NodeStop
	Reason   string // of these cancels
	Force    bool   // runs among what is cancelled skip their finally nodes, too
	Pause    *bool  // the runs below are paused, or go on; nil: as they are
	Finish   *job.Finish
	Next     *job.Execution // of the next attempt: stored as parked, under no person's worker
	Entry    *audit.Entry
	Once     Idempotency // of the request that asked for it; if its key is known, nothing is changed: ErrConflict
}

// NodeStop is a node whose live executions are asked to stop, up to StopsAtOnce of all nodes in one commit. For the rest there is a WaitStop
// afterwards.
type NodeStop struct {
	Node  int
	After NodePlace // those up to here were asked; 0: none was
}

// StopsAtOnce bounds the executions of one run that one commit cancels.
const StopsAtOnce = 1000

// NewMember is an execution that starts.
type NewMember struct {
	Place     NodePlace
	Execution job.Execution
	Target    []byte // in the form of EncodeTarget, if templates changed the job's; nil: the job's own
}

// RunChanged is the result of a change.
type RunChanged struct {
	Run      job.ExecutionID
	Ready    []job.Ready       // members that wait for workers
	Ended    []Ended           // executions that ended with it: cancelled members, and the run's own
	Runs     []job.ExecutionID // runs that got marks by it, this one included
	Tokens   bool              // its execution left marks for jobs that depend on the workflow
	More     bool              // marks are left, or executions to cancel
	Asked    bool              // runs below this one may have been asked something
	Released job.Lease         // of the run's execution that ended
	Err      error
}

// NewRun is a run that begins, and what its first decision starts. Where each of several gets a transaction of its own, an error leaves
// those before it begun. If the first decision names a next execution, the run's own has ended without a run, and the run begins with
// that one.
type NewRun struct {
	Run   WorkflowRun
	First RunChange
}

// Begun is the result of beginning a run.
type Begun struct {
	Run     WorkflowRun // as it is stored
	New     bool        // it was not stored before
	Lost    bool        // nothing was stored: its execution is no longer held under the run's token
	Changed RunChanged  // by its first decision, if it is new
}

// RunFilter selects runs; a zero field matches everything.
type RunFilter struct {
	Tenant   tenant.ID
	Workflow job.ID
	Statuses []int
	Kept     time.Time // of those that ended without having begun: at or after
}
