package api

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// vigil rechecks a request's credential while the request is being answered, so that a credential that is revoked,
// expires or loses its role gets nothing more. A server caches a credential for 3 s, so all of it ends within 5 s.
type vigil struct {
	s     *Server
	r     *http.Request
	p     tenant.Principal
	needs tenant.Permission

	mu    sync.Mutex
	last  time.Time   // guarded by mu: when the credential was last checked
	timer *time.Timer // guarded by mu; nil: nobody waits
}

const vigilEvery = time.Second

func (s *Server) watch(r *http.Request, p tenant.Principal, needs tenant.Permission) *vigil {
	return &vigil{s: s, r: r, p: p, needs: needs, last: time.Now()}
}

// confirm returns an error if the credential does not, or no longer, have the permission, or if that cannot be
// determined.
func (v *vigil) confirm() error {
	if v.s.cfg.Authenticate == nil {
		return nil
	}
	v.mu.Lock()
	v.last = time.Now()
	v.mu.Unlock()
	now, err := v.s.who(v.r)
	if err != nil {
		return err
	}
	if now.Tenant != v.p.Tenant || !now.Role.Allows(v.needs) {
		return errDemoted
	}
	return nil
}

var errDemoted = refuse(http.StatusForbidden, "forbidden", "The credential has changed since the request started, and no longer has the permission for it.")

// allowed reports whether the credential has the permission, or that cannot be determined: a store that is down is no
// reason to end. It checks again only when it is time to.
func (v *vigil) allowed() bool {
	v.mu.Lock()
	fresh := time.Since(v.last) < vigilEvery
	v.mu.Unlock()
	if fresh {
		return true
	}
	err := v.confirm()
	if err == nil {
		return true
	}
	answer, ours := problem(err)
	return ours && answer.Status >= 500
}

// during calls end as soon as the credential is refused, until it is stopped.
func (v *vigil) during(end func()) (stop func()) {
	if v.s.cfg.Authenticate == nil {
		return func() {}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.timer = time.AfterFunc(vigilEvery, func() {
		if !v.allowed() {
			end()
			return
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.timer != nil {
			v.timer.Reset(vigilEvery)
		}
	})
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.timer.Stop()
		v.timer = nil
	}
}

// outlet writes a long answer for as long as its credential is good, also to a reader that takes its time.
type outlet struct {
	http.ResponseWriter
	rc       *http.ResponseController
	patience time.Duration // for each piece
	refused  atomic.Bool
}

// outlet lets an answer be written; stop ends the watch.
func (v *vigil) outlet(w http.ResponseWriter, patience time.Duration) (o *outlet, stop func()) {
	o = &outlet{ResponseWriter: w, rc: http.NewResponseController(w), patience: patience}
	return o, v.during(func() {
		o.refused.Store(true)
		_ = o.rc.SetWriteDeadline(time.Now()) // a piece may be on its way
	})
}

func (o *outlet) Write(p []byte) (int, error) {
	o.extend()
	if o.refused.Load() {
		return 0, errRevoked
	}
	return o.ResponseWriter.Write(p)
}

// extend gives the reader time for the next piece.
func (o *outlet) extend() { _ = o.rc.SetWriteDeadline(time.Now().Add(o.patience)) }
