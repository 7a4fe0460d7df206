package api

import (
	"fmt"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/service"
)

// sessions counts the live worker sessions of each tenant that began at this server: those that have not left, and
// were heard of within a session's lifetime.
type sessions struct {
	most int
	life time.Duration

	mu sync.Mutex
	of map[tenant.ID]map[job.WorkerID]time.Time // guarded by mu: when each was last heard of
}

// usualSessions is the default limit of worker sessions per tenant and server.
const usualSessions = 5000

func newSessions(most int, life time.Duration) *sessions {
	if most == 0 {
		most = usualSessions
	}
	return &sessions{most: most, life: life, of: map[tenant.ID]map[job.WorkerID]time.Time{}}
}

// begin counts a session, or returns *service.OverQuota if the tenant has too many. "" stands for workers that serve
// every tenant.
func (s *sessions) begin(t tenant.ID, w job.WorkerID, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.of[t]
	if all == nil {
		all = map[job.WorkerID]time.Time{}
		s.of[t] = all
	}
	if len(all) >= s.most {
		first := now
		for id, at := range all {
			if now.Sub(at) > s.life {
				delete(all, id)
			} else if at.Before(first) {
				first = at
			}
		}
		if len(all) >= s.most {
			return &service.OverQuota{
				What:  fmt.Sprintf("The tenant has %d worker sessions at this server, which is the limit. Stop some of these workers, or wait until the session of a worker that no longer runs expires.", len(all)),
				Limit: int64(s.most), Current: int64(len(all) + 1), Wait: max(time.Second, first.Add(s.life).Sub(now)),
			}
		}
	}
	all[w] = now
	return nil
}

// heard records a heartbeat.
func (s *sessions) heard(t tenant.ID, w job.WorkerID, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all := s.of[t]; !all[w].IsZero() {
		all[w] = now
	}
}

// end removes a session that has left, or did not begin.
func (s *sessions) end(t tenant.ID, w job.WorkerID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.of[t], w); len(s.of[t]) == 0 {
		delete(s.of, t)
	}
}
