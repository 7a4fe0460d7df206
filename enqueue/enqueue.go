// Package enqueue creates jobs in a transaction of your own, on the PostgreSQL
// database that Carillon uses: the jobs exist if and only if it commits.
//
//	tx, _ := pool.Begin(ctx)
//	tx.Exec(ctx, "INSERT INTO purchases …")
//	enqueue.Insert(ctx, tx, enqueue.Options{}, client.JobRequest{Name: "receipt", …})
//	tx.Commit(ctx)
//
// Requests are validated as by the API, and stored as by a server. Servers find the job when they next look; to start it
// at once, call Wake after the commit, or set Options.NotifyInCommit. Nothing is sent over HTTP and no API key is needed: anyone who may write
// to the database may create jobs of any tenant.
//
// The package never commits, never rolls back, and leaves the settings of the transaction as they were. Where Insert
// fails the transaction can continue, as if it had not been called.
package enqueue

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/core/egress"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/postgres"
	"github.com/carillon-jobs/carillon/internal/service"
)

// Options are the options of Insert. The zero value is right for one tenant in the schema public.
type Options struct {
	// Tenant owns the jobs; "" for default.
	Tenant string
	// Schema names the schema of Carillon's tables; "" for public. The search_path does not matter.
	Schema string
	// NotifyInCommit wakes the servers with the commit. PostgreSQL lets transactions that notify commit one after the other, over
	// all databases of the server: where many commit at once, leave it out, and call Wake after the commit, or not at all.
	NotifyInCommit bool
	// IdempotencyKey makes the call safe to repeat for 24 hours: the same key with the same requests answers as the first
	// time and creates nothing. "" for none.
	IdempotencyKey string
}

// Created names a job that was created or, where another execution holds its unique key, that one's job.
type Created struct {
	JobID       string `json:"job_id"`
	ExecutionID string `json:"execution_id,omitempty"` // "": it fires later
	Duplicate   bool   `json:"duplicate,omitempty"`    // nothing was created: another holds the unique key
}

// Invalid says what is wrong with a request; Field begins with its place, such as [0].name.
type Invalid struct{ Field, Value, Want string }

// InvalidError is everything that is wrong with the requests. Nothing was created.
type InvalidError struct{ Problems []Invalid }

func (e *InvalidError) Error() string {
	text := "enqueue: the requests are not valid"
	for _, p := range e.Problems {
		text += fmt.Sprintf("; %s is %q, want %s", p.Field, p.Value, p.Want)
	}
	return text
}

// VersionError says that the database's schema is older than this package, or unknown to it. Upgrade the servers first.
type VersionError struct {
	Database int // the version of its schema; 0: there is none
	Package  int // the version that this package writes
}

func (e *VersionError) Error() string {
	if e.Database == 0 {
		return fmt.Sprintf("enqueue: there is no Carillon schema where Options.Schema says; want version %d", e.Package)
	}
	return fmt.Sprintf("enqueue: the database's schema is version %d, this package writes version %d; upgrade the servers first", e.Database, e.Package)
}

// The errors on which callers decide.
var (
	ErrUnknownTenant = errors.New("enqueue: there is no such tenant")
	ErrKeyTaken      = errors.New("enqueue: a job's key belongs to another job")
	ErrKeyReused     = errors.New("enqueue: the idempotency key was used with other requests in the last 24 hours")
	ErrProtocol      = errors.New("enqueue: the connection's default_query_exec_mode is simple_protocol or exec; want cache_statement, cache_describe or describe_exec")
)

// MaxRequests limits how many jobs one call may create.
const MaxRequests = service.MaxBatch

// Insert creates jobs in a transaction, all or none, and answers in their order.
func Insert(ctx context.Context, tx pgx.Tx, o Options, requests ...client.JobRequest) ([]Created, error) {
	if o.Tenant == "" {
		o.Tenant = string(tenant.Default)
	}
	if o.Schema == "" {
		o.Schema = "public"
	}
	var out []Created
	err := postgres.In(ctx, tx, o.Schema, func(w *postgres.Within) (err error) {
		out, err = insert(ctx, w, o, requests)
		return err
	})
	if err != nil {
		return nil, explain(err)
	}
	return out, nil
}

// instant is a clock that stands still.
type instant time.Time

func (i instant) Now() time.Time { return time.Time(i) }

func insert(ctx context.Context, w *postgres.Within, o Options, requests []client.JobRequest) ([]Created, error) {
	has, err := w.HasTenant(ctx, tenant.ID(o.Tenant))
	if err != nil {
		return nil, err
	}
	if !has {
		return nil, ErrUnknownTenant
	}
	ready := false
	svc := service.New(w, instant(w.Now()), service.Config{
		LookAhead: lookAhead, Direct: true, Unmetered: true, Egress: egress.Unknown(), Hint: func(rs []job.Ready) { ready = ready || len(rs) > 0 },
	})
	defs := make([]job.Definition, len(requests))
	for i, r := range requests {
		if defs[i], err = api.Definition(r, svc.Check); err != nil {
			var v job.Invalids
			if errors.As(err, &v) {
				return nil, v.Under(fmt.Sprintf("[%d].", i))
			}
			return nil, err
		}
	}
	once := service.Once[[]service.NewJob]{Key: o.IdempotencyKey, Encode: func(made []service.NewJob) []byte {
		answer, _ := json.Marshal(named(made)) // strings only
		return answer
	}}
	if once.Key != "" {
		asked, err := json.Marshal(requests)
		if err != nil {
			return nil, err
		}
		once.Hash = sha256.Sum256(append([]byte("enqueue\x00"), asked...))
	}
	p := tenant.Principal{Tenant: tenant.ID(o.Tenant), Role: tenant.Operator, Name: "enqueue"}
	made, replay, err := svc.CreateJobs(ctx, p, defs, once)
	if err != nil {
		return nil, err
	}
	if replay != nil {
		var before []Created
		return before, json.Unmarshal(replay, &before)
	}
	if ready && o.NotifyInCommit {
		if err := w.Notify(ctx); err != nil {
			return nil, err
		}
	}
	return named(made), nil
}

// Execer runs a statement: a pool, or a connection.
type Execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// Wake tells the servers to look for jobs that are ready. Call it after the commit, outside of a transaction. It saves them the wait for their
// next look, and nothing depends on it.
func Wake(ctx context.Context, db Execer) error { return postgres.Wake(ctx, db) }

// lookAhead sets how soon a job must be due to get its execution with it; schedulers create the others.
const lookAhead = 5 * time.Second

func named(made []service.NewJob) []Created {
	out := make([]Created, len(made))
	for i, m := range made {
		out[i] = Created{JobID: m.Job.ID.String(), Duplicate: m.Instead}
		if !m.Execution.IsZero() {
			out[i].ExecutionID = m.Execution.String()
		}
	}
	return out
}

// explain is an error in this package's words.
func explain(err error) error {
	var v job.Invalids
	var other *postgres.OtherVersion
	var taken *service.KeyTaken
	switch {
	case errors.As(err, &v):
		out := &InvalidError{Problems: make([]Invalid, len(v))}
		for i, x := range v {
			out.Problems[i] = Invalid(x)
		}
		return out
	case errors.As(err, &other):
		return &VersionError{Database: other.Has, Package: other.Want}
	case errors.As(err, &taken):
		return fmt.Errorf("%w: %q", ErrKeyTaken, taken.Key)
	case errors.Is(err, service.ErrKeyReused):
		return ErrKeyReused
	case errors.Is(err, postgres.ErrProtocol):
		return ErrProtocol
	case errors.Is(err, ErrUnknownTenant):
		return ErrUnknownTenant
	case errors.Is(err, engine.ErrConflict):
		return fmt.Errorf("enqueue: others created the same jobs at the same time: %w", err)
	}
	return fmt.Errorf("enqueue: %w", err)
}
