package artifact

import (
	"context"
	"io"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// upload is an artifact on its way. What of it is in the spool, or was announced, counts against the tenant's quota.
type upload struct {
	s    *Store
	t    tenant.ID
	r    io.Reader
	used int64 // by the tenant's artifacts when it began; what came since is counted at the end
	read int64
	held int64 // at least what was read
}

// begin counts an upload against the quota of its tenant; *OverQuota if it does not fit. The size is -1 if it is unknown.
//
// The tenant may have the artifact, which then takes no more room. Only an upload of the same size can be one that it has, and where it
// does not fit, it has to be the only one.
func (s *Store) begin(ctx context.Context, t tenant.ID, r io.Reader, size int64) (*upload, error) {
	u := &upload{s: s, t: t, r: r}
	known := false
	err := blob.Each(ctx, s.objects, blob.Of(t, below), func(x blob.Info) error {
		u.used += x.Size
		known = known || x.Size == size
		return nil
	})
	if err != nil {
		return nil, err
	}
	return u, u.hold(max(size, 1), known)
}

// hold counts so many bytes more. alone says that they need not fit if nothing else is on its way.
func (u *upload) hold(n int64, alone bool) error {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	coming := u.s.coming[u.t]
	if u.used+coming+n > u.s.quota && !(alone && coming == 0) {
		return &OverQuota{Limit: u.s.quota, Used: u.used + coming - u.held, Adds: u.held + n}
	}
	u.s.coming[u.t] = coming + n
	u.held += n
	return nil
}

// release ends the count of all but what is left.
func (u *upload) release(left int64) {
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if u.s.coming[u.t] -= u.held - left; u.s.coming[u.t] == 0 {
		delete(u.s.coming, u.t)
	}
	u.held = left
}

// Read reads the body, for which there is room.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	u.read += int64(n)
	if more := u.read - u.held; more > 0 {
		if over := u.hold(more, false); over != nil {
			return 0, over
		}
	}
	return n, err
}
