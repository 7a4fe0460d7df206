package engine

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Catalogue knows the files that finished executions were moved to. A file answers for its executions from the commit that takes them out
// of the store, see Days.LeaveDay; before, the store does.
//
// One server at a time writes: the one whose turn it is. Each write names its turn, and is ErrConflict if another has it.
type Catalogue interface {
	// TakeArchive takes the turn for a while, or keeps it; ErrConflict while it is another holder's.
	TakeArchive(ctx context.Context, holder [16]byte, ttl time.Duration) (ArchiveTurn, error)
	// NoteArchive stores what the holder of the turn has to say about the state of the archive.
	NoteArchive(ctx context.Context, t ArchiveTurn, note []byte) error
	// ArchiveNote returns the last note; nil if there is none.
	ArchiveNote(ctx context.Context) ([]byte, error)
	// BeginFile adds a file that is about to be put under its name. ErrConflict if the catalogue has one of that name.
	BeginFile(ctx context.Context, t ArchiveTurn, f ArchiveFile) error
	// ProveFile says that a begun file is under its name and was read back.
	ProveFile(ctx context.Context, t ArchiveTurn, name string) error
	// SettleFile says that nothing of what a file has is left in the store.
	SettleFile(ctx context.Context, t ArchiveTurn, name string) error
	// RetireFile makes a settled file retired, so that it answers no longer, and a proved file one that is begun, so that it never will. It is
	// about to be deleted. *Held, if the file answers and a tenant with something of it has a hold, of itself or of a job: a hold that was
	// answered before finds all of the file there afterwards.
	RetireFile(ctx context.Context, t ArchiveTurn, name string) error
	// StrikeFile removes a file from the catalogue. One that is not there is fine.
	StrikeFile(ctx context.Context, t ArchiveTurn, name string) error
	// ArchiveFiles lists files, latest day first, then by name.
	ArchiveFiles(ctx context.Context, f FileFilter) ([]ArchiveFile, error)
}

// Days moves finished executions out of the store, a day (UTC) of finish at a time. What still belongs to something live never moves: dead
// letters, and executions of workflow runs that the store has.
type Days interface {
	// FinishedDays lists the days before an instant, which is the beginning of one, that have executions which may move; earliest first.
	FinishedDays(ctx context.Context, before time.Time) ([]time.Time, error)
	// ReadDay reads the executions of a day that may move, in one snapshot, sorted by tenant, job, finish and id.
	ReadDay(ctx context.Context, day time.Time, to DaySink) error
	// LeaveDay makes the proved files of a day answer for its executions. ErrConflict unless those that may move are as many, and sum up
	// to the same, as the files have together: some were forgotten meanwhile, for instance. Engines that can drop them do so in the same commit;
	// DropArchived does the rest.
	LeaveDay(ctx context.Context, t ArchiveTurn, day time.Time) error
	// DropArchived drops executions of which files answer, with their attempts and logs, and with their events up to an instant: the files
	// have these.
	DropArchived(ctx context.Context, ids []job.ExecutionID, until time.Time) error
	// LateEvents lists the events that the store has of an execution of a tenant, whether or not it has the execution, oldest first.
	LateEvents(ctx context.Context, t tenant.ID, id job.ExecutionID) ([]job.Event, error)
}

// DaySink takes what ReadDay reads.
type DaySink interface {
	// Executions takes some executions, in order.
	Executions(fs []Finished) error
	// Log takes a part of the log of one of the executions of the last call, in their order.
	Log(i int, c LogChunk) error
}

// Finished is a finished execution and all that is known of it except its log.
type Finished struct {
	Execution job.Execution
	Tags      []string // of its job
	Attempts  []job.PastAttempt
	Events    []job.Event
}

// Check returns what an execution adds to the sum by which LeaveDay compares. Sums are modulo 2^32, so that a day of any size has one.
func (f *Finished) Check() uint32 {
	const day = 86_400_000_000
	return uint32(f.Execution.FinishedAt.UnixMicro()%day + int64(f.Execution.Token)&(1<<32-1))
}

// ArchiveTurn is the right to write to the catalogue.
type ArchiveTurn struct {
	Holder [16]byte
	Epoch  int64
}

// ArchiveKind is what a file of the archive holds.
type ArchiveKind uint8

// The kinds of files. Their numbers are stored.
const (
	ArchivedExecutions ArchiveKind = 1
	ArchivedLogs       ArchiveKind = 2
)

// FileState is how far a file of the archive is.
type FileState uint8

// The states of a file. Their numbers are stored.
const (
	FileBegun   FileState = 0 // it may be under its name
	FileProved  FileState = 1 // it is, and was read back
	FileAnswers FileState = 2 // it answers for its executions; the store may have left something of them
	FileSettled FileState = 3 // it answers, and the store has nothing of them
	FileRetired FileState = 4 // it answers no longer, and goes, with what the store has of its executions
)

// ArchiveFile is a file of the archive, as the catalogue knows it.
type ArchiveFile struct {
	Name      string
	Kind      ArchiveKind
	State     FileState
	Day       time.Time // on which its executions finished
	Part      int
	Rows      int64
	Bytes     int64
	Check     uint32 // the sum of what its executions add, see Finished.Check
	SHA256    [32]byte
	ReadAt    time.Time // all that the store had of its executions at this instant is in it
	WrittenAt time.Time
	Shares    []ArchiveShare // one for each tenant, or only that of the tenant who was asked for
}

// ArchiveShare is what a file has of a tenant.
type ArchiveShare struct {
	Tenant      tenant.ID
	Rows        int64
	First, Last time.Time // the least and the greatest scheduled time
	Made, Until time.Time // the least and the greatest instant of the executions' ids
}

// FileFilter selects files; a zero field matches everything.
type FileFilter struct {
	Tenant    tenant.ID   // that have something of it; Shares is that
	Kind      ArchiveKind // of this kind only
	Day       time.Time
	Name      string
	From      time.Time // with Tenant: that may have executions scheduled at or after
	Until     time.Time // likewise: before or at
	Made      time.Time // likewise: whose id was made at this instant
	Answering bool      // which answer
}
