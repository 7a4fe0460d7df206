package secret

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/seal"
)

// maxGrowth limits how much longer values make what a worker receives: a short payload may name a long one often.
const maxGrowth = 1 << 20

// resolving is the work on one attempt.
type resolving struct {
	v     *Vault
	ctx   context.Context
	a     *job.Attempt
	snap  *snapshot // nil: not needed yet
	again bool      // it was read again already
	own   []*index  // of managed ones
	grown int
}

// Step replaces the references of an attempt by the values, and records what the attempt must not reveal. An
// unresolvable reference ends the attempt: for good if a secret does not exist or does not fit, else to be retried.
func (v *Vault) Step(ctx context.Context, a job.Attempt, out *client.Attempt) error {
	r := resolving{v: v, ctx: ctx, a: &a}
	if err := r.headers(out); err != nil {
		return err
	}
	if err := r.env(out); err != nil {
		return err
	}
	if err := r.payload(out); err != nil {
		return err
	}
	if r.snap == nil {
		s, err := v.beside(ctx, a)
		if err != nil || s == nil && len(r.own) == 0 {
			return err
		}
		r.snap = s
	}
	if r.snap.has() || len(r.own) > 0 {
		e := &entry{tenant: a.Tenant, own: r.own}
		if r.snap != nil {
			e.given = r.snap.given
		}
		v.handed.note(a.Execution, e)
	}
	return nil
}

// beside returns the secrets of a tenant whose attempt names none; nil if it has none. Usually it reads no clock: the
// lease did.
func (v *Vault) beside(ctx context.Context, a job.Attempt) (*snapshot, error) {
	w, at := v.view(a.Tenant), a.LeasedAt.UnixMicro()
	if until := w.none.Load(); at < until && at > until-2*freshNone.Microseconds() {
		return nil, nil
	}
	s, err := v.quick(ctx, a.Tenant)
	if err != nil || len(s.open) > 0 {
		return s, err
	}
	w.none.Store(at + freshNone.Microseconds())
	return nil, nil
}

func (r *resolving) headers(out *client.Attempt) error {
	var changed map[string]string
	for name, value := range out.Execution.Headers {
		if !strings.Contains(value, opening) {
			continue
		}
		text, err := r.text(value)
		if err != nil {
			return err
		}
		if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return refusal(fmt.Sprintf("the header %s cannot carry the value of the secret it names: it has line breaks or other control characters", job.Show(name)))
		}
		if changed == nil {
			changed = maps.Clone(out.Execution.Headers)
		}
		changed[name] = text
	}
	if changed != nil {
		out.Execution.Headers = changed
	}
	return nil
}

func (r *resolving) env(out *client.Attempt) error {
	if err := r.ownInput(out); err != nil {
		return err
	}
	var changed map[string]string
	for name, value := range out.Execution.Env {
		if !strings.Contains(value, opening) {
			continue
		}
		text, err := r.text(value)
		if err != nil {
			return err
		}
		if changed == nil {
			changed = maps.Clone(out.Execution.Env)
		}
		changed[name] = text
	}
	if changed != nil {
		out.Execution.Env = changed
	}
	return nil
}

// ownInput refuses hidden variables to a command that may run its input as code and has another payload than its job:
// whoever supplied it could read them. New executions are refused such a payload; this one may have been waiting
// since before the variables existed. It queries the store only for such commands.
func (r *resolving) ownInput(out *client.Attempt) error {
	hidden := slices.DeleteFunc(names(out.Execution.Env), func(name string) bool { return Managed(out.Execution.Env[name]) == "" })
	if len(hidden) == 0 || !r.a.Target.PayloadIsProgram() {
		return nil
	}
	e, err := r.v.store.Execution(r.ctx, r.a.Tenant, r.a.Execution)
	if err != nil || e.Payload == nil {
		return err
	}
	j, err := r.v.store.Job(r.ctx, r.a.Tenant, engine.Ref{ID: r.a.Job})
	if err != nil || string(j.Payload) == string(e.Payload) {
		return err
	}
	return refusal(fmt.Sprintf("the execution has a payload of its own, which its command may run as code, and its job has got the hidden variables %s since: use ${secret:name} in place of them, or have the command run a script file such as report.sh", strings.Join(hidden, ", ")))
}

func (r *resolving) payload(out *client.Attempt) error {
	if !bytes.Contains(out.Payload, []byte(opening)) {
		return nil
	}
	var failed error
	out.Payload = values(out.Payload, func(raw string) (string, bool) {
		if failed != nil {
			return "", false
		}
		text, err := expand(raw, func(name string) (string, error) {
			if isManaged(name) {
				return "", refusal("the payload names " + shown(name) + ", which is hidden and never part of a payload")
			}
			value, err := r.value(name)
			out.PayloadSecret = true
			return escape(value), err
		})
		failed = err
		return text, err == nil
	})
	return failed
}

func (r *resolving) text(s string) (string, error) { return expand(s, r.value) }

// value returns the value of a name.
func (r *resolving) value(name string) (string, error) {
	if r.grown > maxGrowth {
		return "", refusal(fmt.Sprintf("the secrets that the job names make it longer by more than %d bytes", maxGrowth))
	}
	var o opened
	var err error
	switch {
	case isManaged(name):
		o, err = r.managed(name)
	case isExternal(name):
		o, err = r.external(name)
	default:
		o, err = r.named(name)
	}
	if err != nil {
		return "", err
	}
	if o.err != nil {
		why := "it cannot be opened with the keys that the server has"
		if errors.Is(o.err, seal.ErrNoKey) {
			why = "the server has no key to open it with"
		}
		return "", &delivery.Refusal{Cause: job.Error{Type: job.InternalError, Message: fmt.Sprintf("%s: %s", shown(name), why)}, Retryable: true}
	}
	r.grown += len(o.text)
	return o.text, nil
}

func (r *resolving) named(name string) (opened, error) {
	if r.snap == nil {
		s, err := r.v.snapshot(r.ctx, r.a.Tenant, fresh)
		if err != nil {
			return opened{}, err
		}
		r.snap = s
	}
	o, ok := r.snap.open[name]
	if !ok && !r.again { // it may be new
		r.again = true
		s, err := r.v.snapshot(r.ctx, r.a.Tenant, 0)
		if err != nil {
			return opened{}, err
		}
		r.snap = s
		o, ok = s.open[name]
	}
	if !ok {
		return o, missing(name)
	}
	return o, nil
}

// managed opens a hidden credential of the attempt's job. Definitions cannot name another's; this would refuse it
// even if one did.
func (r *resolving) managed(name string) (opened, error) {
	if of, _, _ := strings.Cut(name, "/"); of != "~"+r.a.Job.String() {
		return opened{}, refusal(shown(name) + " belongs to another job")
	}
	k, err := r.v.keep(r.ctx, r.a.Tenant, name)
	switch {
	case errors.Is(err, engine.ErrNotFound):
		return opened{}, refusal(shown(name) + " is gone; set it again")
	case errors.Is(err, seal.ErrNoKey), errors.Is(err, seal.ErrUnknownKey), errors.Is(err, seal.ErrDamaged):
		return opened{err: err}, nil
	case err != nil:
		return opened{}, err
	}
	if k.index != nil {
		r.own = append(r.own, k.index)
	}
	return opened{text: k.text}, nil
}

// shown names a secret for people: a managed one by its header or variable.
func shown(name string) string {
	_, of, ok := strings.Cut(name, "/")
	if !ok || !isManaged(name) {
		return fmt.Sprintf("the secret %q", name)
	}
	if variable, ok := strings.CutPrefix(of, "env/"); ok {
		return "the credential in the variable " + variable
	}
	return "the credential in the header " + of
}

func refusal(message string) error {
	return &delivery.Refusal{Cause: job.Error{Type: job.InternalError, Message: message}}
}
