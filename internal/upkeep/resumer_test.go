package upkeep

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/engine"
)

type resumable struct {
	engine.Jobs
	due []job.Job
	err error
}

func (r *resumable) Resumable(_ context.Context, limit int) ([]job.Job, error) {
	return r.due[:min(limit, len(r.due))], r.err
}

func TestResumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &resumable{}
		tried, fails := 0, true
		r := &Resumer{Store: s, Log: quiet, Resume: func(_ context.Context, j job.Job) error {
			tried++
			if j.ID[2] == 1 && fails {
				return errors.New("not now")
			}
			s.due = slices.DeleteFunc(slices.Clone(s.due), func(x job.Job) bool { return x.ID == j.ID })
			return nil
		}}
		for i := range 2*resumeBatch + 5 { // those that cannot come first
			s.due = append(s.due, job.Job{ID: job.ID{byte(i), byte(i >> 8), map[bool]byte{true: 1}[i < resumeBatch]}})
		}
		for range 4 {
			if _, err := r.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Second)
		}
		if len(s.due) != resumeBatch || tried != 2*resumeBatch+5 {
			t.Errorf("%d left, %d tried", len(s.due), tried)
		}
		fails = false
		<-time.After(resumeAgain)
		if next, err := r.Tick(t.Context()); err != nil || next != 0 || len(s.due) != 0 {
			t.Errorf("%d left at last, next %v, %v", len(s.due), next, err)
		}
		if next, err := r.Tick(t.Context()); err != nil || next != time.Second {
			t.Errorf("nothing: %v, %v", next, err)
		}
		s.err = errors.New("away")
		if _, err := r.Tick(t.Context()); !errors.Is(err, s.err) {
			t.Errorf("got %v", err)
		}
	})
}
