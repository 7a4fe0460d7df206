package api

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/feed"
)

// A stream on which nothing happens says every five seconds that it is alive, by an event that pages are told of.
func TestAStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequestWithContext(ctx, "GET", "/api/v1/events/stream", nil)
		w := httptest.NewRecorder()
		hub := feed.NewHub()
		watch, _ := hub.Watch("a", "")
		defer watch.Close()
		s := &Server{stopping: make(chan struct{})}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			viewAPI{s}.tell(r, tenant.Principal{Tenant: "a"}, watch, newEvents(w))
		}()
		time.Sleep(12 * time.Second)
		hub.Tell("a", feed.Change{Type: "job.created"})
		time.Sleep(time.Second)
		cancel()
		<-ended
		got := w.Body.String()
		beat := "event: beat\ndata: {}\n\n"
		if !strings.HasPrefix(got, beat+beat+"id: ") || strings.Count(got, beat) != 2 {
			t.Errorf("got %q", got)
		}
	})
}
