package api_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	corejob "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/delivery"
	"github.com/carillon-jobs/carillon/internal/dispatch"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// cutting is a store that, once, cuts the connection of who claims while it leases, and continues when the server has seen that.
type cutting struct {
	engine.Store
	cut func()
}

func (c *cutting) Lease(ctx context.Context, gs []engine.Grant, f engine.Fence) ([]corejob.Attempt, error) {
	as, err := c.Store.Lease(ctx, gs, f)
	if cut := c.cut; cut != nil {
		c.cut = nil
		cut()
	}
	return as, err
}

// What was leased for a worker whose connection broke meanwhile is handed back at once, and the attempt does not count.
func TestAClaimWhoseConnectionBreaksIsHandedBack(t *testing.T) {
	var store *cutting
	f := newFace(t, func(c *api.Config, s engine.Store) {
		store = &cutting{Store: s}
		c.Dispatch = dispatch.New(store, clock.System{}, c.Logger, dispatch.Config{})
		c.Delivery = delivery.New(c.Dispatch, c.Logger)
		c.Service = service.New(s, clock.System{}, service.Config{LookAhead: 5 * time.Second, Hint: c.Dispatch.Offer})
	})
	path, mine := f.worker()
	gone := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/claim") {
			context.AfterFunc(r.Context(), func() { close(gone) })
		}
		f.http.ServeHTTP(w, r)
	}))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan bool, 1)
	store.cut = func() {
		conn.Close()
		select {
		case <-gone:
			seen <- true
		case <-time.After(30 * time.Second):
			seen <- false
		}
	}
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", handled("{}"))
	body := `{"max": 1, "wait_seconds": 20}`
	fmt.Fprintf(conn, "POST %s/claim HTTP/1.1\r\nHost: localhost\r\nX-Worker-Session: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, mine[1], len(body), body)
	if !<-seen {
		t.Fatal("the server did not see that the connection was closed")
	}
	began := time.Now()
	other, by := f.worker()
	got := want[client.Claimed](f, 200, "POST", other+"/claim", `{"max": 1, "wait_seconds": 20}`, by...)
	if len(got.Attempts) != 1 || got.Attempts[0].ExecutionID != j.ExecutionID {
		t.Fatalf("another worker was given %+v after %v", got, time.Since(began))
	}
	if n := got.Attempts[0].AttemptNumber; n != 1 {
		t.Errorf("it is attempt %d: what nobody heard of counts", n)
	}
}
