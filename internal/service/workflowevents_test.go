package service

import (
	"context"
	"testing"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// sending is a store that sends events as the test says.
type sending struct {
	keeping
	send func(ctx context.Context) error
}

func (s sending) SendEvent(ctx context.Context, ev engine.RunEvent, _ engine.EventOnce, _ *audit.Entry) (engine.SentEvent, error) {
	return engine.SentEvent{ID: ev.ID}, s.send(ctx)
}

// An event wakes all runs that wait for it also if whoever sent it does not wait for the answer.
func TestAnEventOutlivesItsRequest(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	s := New(sending{send: func(ctx context.Context) error {
		leave()
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("it may take for ever")
		}
		return ctx.Err()
	}}, clock.System{}, Config{})
	if _, _, err := s.SendEvent(ctx, tenant.Local(), "paid", nil, nil, false, Once[EventSent]{}); err != nil {
		t.Errorf("its client left: %v", err)
	}
}
