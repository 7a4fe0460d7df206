package api_test

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/clock"
	core "github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// wellFormed reports whether a text is XML, and what texts are in it.
func wellFormed(t testing.TB, text string) (words []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if err == io.EOF {
			return words
		}
		if err != nil {
			t.Fatalf("%v in %q", err, text)
		}
		switch x := token.(type) {
		case xml.CharData:
			words = append(words, string(x))
		case xml.StartElement:
			if !strings.Contains(" svg title rect path g text ", " "+x.Name.Local+" ") {
				t.Errorf("an element %s in %q", x.Name.Local, text)
			}
		}
	}
}

func TestBadges(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		j := want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "<b>\"nightly\"</b> & more", "key": "nightly", "schedule": {"type": "CRON", "cron_expression": "0 0 1 1 *"}, "execution": {"target": "simulate", "work_kind": "noop"}}`)
		own := want[client.Badge](f, 201, "POST", "/api/v1/badges", `{"job_id": "key:nightly"}`)
		b := want[client.Badge](f, 201, "POST", "/api/v1/badges", fmt.Sprintf(`{"job_id": %q, "label": "Nightly"}`, j.JobID))
		if b.JobID != j.JobID || b.JobName != j.Name || *b.Label != "Nightly" || own.Label != nil || *own.SVG == *b.SVG {
			t.Errorf("made: %+v, %+v", own, b)
		}

		svg := f.ask("GET", *own.SVG, "")
		h := svg.Header()
		if svg.Code != 200 || h.Get("Content-Type") != "image/svg+xml; charset=utf-8" || h.Get("Cache-Control") != "max-age=60" || h.Get("X-Content-Type-Options") != "nosniff" ||
			h.Get("Content-Security-Policy") != "default-src 'none'; style-src 'unsafe-inline'" {
			t.Errorf("%d, %v", svg.Code, h)
		}
		if words := wellFormed(t, svg.Body.String()); len(words) != 3 || words[1] != `<b>"nightly"</b> & more` || words[2] != "unknown" {
			t.Errorf("the picture says %q", words)
		}
		for _, tag := range []string{h.Get("ETag"), `"x", W/` + h.Get("ETag")} {
			if again := f.ask("GET", *own.SVG, "", "If-None-Match", tag); again.Code != 304 || again.Body.Len() != 0 {
				t.Errorf("what is known is sent again: %d", again.Code)
			}
		}
		if got := want[client.BadgeState](f, 200, "GET", *b.JSON, ""); got != (client.BadgeState{Label: "Nightly", State: "unknown"}) {
			t.Errorf("as data: %+v", got)
		}

		list := want[client.Badges](f, 200, "GET", "/api/v1/badges?limit=1", "")
		if len(list.Badges) != 1 || list.Badges[0].BadgeID != b.BadgeID || list.Badges[0].SVG != nil || list.Pagination.Total != 2 {
			t.Errorf("the first: %+v", list)
		}
		want[client.Badge](f, 201, "POST", "/api/v1/badges", `{"job_id": "key:nightly"}`) // meanwhile
		list = want[client.Badges](f, 200, "GET", "/api/v1/badges?limit=1&cursor="+*list.Pagination.NextCursor, "")
		if len(list.Badges) != 1 || list.Badges[0].BadgeID != own.BadgeID || list.Pagination.NextCursor != nil {
			t.Errorf("the rest: %+v", list)
		}
		want[client.Problem](f, 400, "GET", "/api/v1/badges?cursor=1", "")
		if got := want[client.Badges](f, 200, "GET", "/api/v1/badges?limit=1&cursor="+strings.ToUpper(b.BadgeID), ""); len(got.Badges) != 1 || got.Badges[0].BadgeID != own.BadgeID || got.Pagination.Total != 3 {
			t.Errorf("behind an id in capitals: %+v", got)
		}

		if gone := want[client.Badge](f, 200, "DELETE", "/api/v1/badges/"+strings.ToUpper(b.BadgeID), ""); gone.BadgeID != b.BadgeID || gone.JobName != j.Name {
			t.Errorf("revoked: %+v", gone)
		}
		want[client.Problem](f, 404, "DELETE", "/api/v1/badges/"+b.BadgeID, "")
		want[client.Problem](f, 404, "DELETE", "/api/v1/badges/x", "")
		// Another server has not seen it before.
		f.http = elsewhere(f, clock.System{})
		wrong := f.ask("GET", *b.SVG, "")
		other := f.ask("GET", "/nothing", "")
		if wrong.Code != 404 || stripped(wrong) != stripped(other) || wrong.Header().Get("Cache-Control") != "max-age=60" {
			t.Errorf("revoked: %d %s, and where nothing ever was: %s", wrong.Code, wrong.Body, other.Body)
		}
		for _, path := range []string{"/badges/x.svg", *own.SVG + "x", strings.ToUpper(*own.SVG), strings.TrimSuffix(*own.SVG, ".svg"), strings.TrimSuffix(*own.SVG, ".svg") + ".png"} {
			if w := f.ask("GET", path, ""); w.Code != 404 {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
		want[client.Job](f, 200, "DELETE", "/api/v1/jobs/"+j.JobID, "")
		want[client.Problem](f, 404, "GET", *own.JSON, "")
		want[client.Problem](f, 422, "POST", "/api/v1/badges", fmt.Sprintf(`{"job_id": %q}`, j.JobID))
		if list := want[client.Badges](f, 200, "GET", "/api/v1/badges", ""); len(list.Badges) != 0 || list.Pagination.Total != 0 {
			t.Errorf("of a deleted job: %+v", list)
		}
	})
}

// elsewhere is another server over the same store.
func elsewhere(f face, clk clock.Clock) *api.Server {
	return api.New(api.Config{Service: service.New(f.store, clk, service.Config{}), Logger: slog.New(slog.DiscardHandler)})
}

// ahead is a clock by which the next year is over.
type ahead struct{}

func (ahead) Now() time.Time { return time.Now().AddDate(2, 0, 0) }

// stripped is a problem without what tells requests apart.
func stripped(w *httptest.ResponseRecorder) string {
	return strings.ReplaceAll(w.Body.String(), w.Header().Get("X-Request-ID"), "")
}

func TestBadgesOfEveryCondition(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		worker := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["k"], "capacity": 5}`)
		by := []string{"X-Worker-Session", worker.Session}
		const succeeded, failed = `"SUCCEEDED"`, `"FAILED", "error": {"type": "HANDLER_ERROR", "message": "no"}`
		run := func(status string) {
			t.Helper()
			want[client.Triggered](f, 202, "POST", "/api/v1/jobs/key:n/trigger", "")
			got := want[client.Claimed](f, 200, "POST", "/api/v1/workers/"+worker.WorkerID+"/claim", `{"max": 1, "wait_seconds": 10}`, by...)
			if len(got.Attempts) != 1 {
				t.Fatalf("claimed: %+v", got)
			}
			a := got.Attempts[0]
			want[client.Verdicts](f, 200, "POST", "/api/v1/workers/"+worker.WorkerID+"/complete", fmt.Sprintf(`{"outcomes": [{"execution_id": %q, "fencing_token": %d, "status": %s}]}`, a.ExecutionID, a.FencingToken, status), by...)
		}
		want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "n", "key": "n", "schedule": {"type": "CRON", "cron_expression": "0 0 1 1 *"}, "retry_policy": {"max_retries": 0}, "execution": {"target": "worker", "kind": "k"}}`)
		b := want[client.Badge](f, 201, "POST", "/api/v1/badges", `{"job_id": "key:n"}`)
		is := func(wanted string, clk clock.Clock) {
			t.Helper()
			other := f
			other.http = elsewhere(f, clk) // which remembers nothing
			if got := want[client.BadgeState](other, 200, "GET", *b.JSON, ""); got.State != wanted {
				t.Errorf("it is %s, want %s", got.State, wanted)
			}
		}
		is("unknown", clock.System{})
		run(succeeded)
		is("up", clock.System{})
		run(failed)
		is("down", clock.System{})
		want[client.Job](f, 200, "POST", "/api/v1/jobs/key:n/pause", "")
		is("paused", clock.System{})
		want[client.Job](f, 200, "POST", "/api/v1/jobs/key:n/resume", "")
		run(succeeded)
		is("up", clock.System{})
		is("late", ahead{}) // nobody fires here
		run(failed)
		is("down", ahead{})
	})
}

func TestBadgesAreRefused(t *testing.T) {
	f := newFace(t)
	want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "n", "key": "n", "execution": {"target": "simulate", "work_kind": "noop"}}`)
	for body, field := range map[string]string{
		`{}`: "job_id", `{"job_id": "x"}`: "job_id", `{"job_id": "key:none"}`: "job_id", `{"job_id": "key:n", "label": ""}`: "label", `{"job_id": "key:n", "label": "  "}`: "label",
		`{"job_id": "key:n", "label": "a\u0007b"}`: "label", `{"job_id": "key:n", "label": "` + strings.Repeat("é", 81) + `"}`: "label",
	} {
		p := want[client.Problem](f, 422, "POST", "/api/v1/badges", body)
		if len(p.Errors) != 1 || p.Errors[0].Field != field || p.Errors[0].Want == "" {
			t.Errorf("%s: %+v", body, p.Errors)
		}
	}
	// The same request again is answered without the address, and makes no other.
	key := []string{"X-Idempotency-Key", "k"}
	first := want[client.Badge](f, 201, "POST", "/api/v1/badges", `{"job_id": "key:n"}`, key...)
	if again := want[client.Badge](f, 201, "POST", "/api/v1/badges", `{"job_id": "key:n"}`, key...); again.BadgeID != first.BadgeID || again.SVG != nil {
		t.Errorf("%+v, then %+v", first, again)
	}
	// Who guesses is made to wait, and what worked from there continues working.
	want[client.BadgeState](f, 200, "GET", *first.JSON, "")
	guess := func(n int) *httptest.ResponseRecorder {
		return f.ask("GET", fmt.Sprintf("/badges/cbg_%s%c%c.svg", strings.Repeat("a", 30), 'a'+n/26, 'a'+n%26), "")
	}
	for range 40 { // a page that has a dead one is paid for but once
		if w := guess(0); w.Code != 404 || w.Header().Get("Cache-Control") != "max-age=60" {
			t.Fatalf("the same one again: %d %v", w.Code, w.Header())
		}
	}
	for n := range 30 {
		if w := guess(n); w.Code != 404 {
			t.Fatalf("after %d guesses: %d", n, w.Code)
		}
	}
	w := guess(30)
	if w.Code != 429 || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"unknown_badges"`) || strings.Contains(w.Body.String(), "credential") {
		t.Errorf("after thirty guesses: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := guess(0); w.Code != 404 {
		t.Errorf("what is known to be wrong: %d", w.Code)
	}
	want[client.BadgeState](f, 200, "GET", *first.JSON, "")
}

// countingStore counts how often the store is asked for badges. Their jobs may have millions of executions that wait.
type countingStore struct {
	engine.Store
	t     *testing.T
	asked atomic.Int32
}

func (s *countingStore) Badge(ctx context.Context, hash [32]byte) (engine.Badge, error) {
	s.asked.Add(1)
	return s.Store.Badge(ctx, hash)
}

func (s *countingStore) Stats(context.Context, tenant.ID, []core.ID) ([]core.Stats, error) {
	s.t.Error("a badge reads all statistics of its job")
	return nil, engine.ErrUnavailable
}

func TestABadgeThatManyLookAt(t *testing.T) {
	onBoth(t, func(t *testing.T, open newFaces) {
		f := open()
		want[client.Job](f, 201, "POST", "/api/v1/jobs", `{"name": "n", "key": "n", "execution": {"target": "worker", "kind": "k"}}`)
		b := want[client.Badge](f, 201, "POST", "/api/v1/badges", `{"job_id": "key:n"}`)
		store := &countingStore{Store: f.store, t: t}
		f.http = api.New(api.Config{Service: service.New(store, clock.System{}, service.Config{}), Logger: slog.New(slog.DiscardHandler)})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if w := f.ask("GET", *b.JSON, ""); w.Code != 200 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		wg.Wait()
		if n := store.asked.Load(); n != 1 {
			t.Errorf("the store was asked %d times", n)
		}
	})
}

// What is another tenant's job has no badge of this one's.
func TestBadgesKeepToTheirTenant(t *testing.T) {
	m := newMatrix(t)
	body := fmt.Sprintf(`{"job_id": %q}`, m.things["/api/v1/jobs/"])
	want[client.Problem](m.face, 422, "POST", "/api/v1/badges", body, "Authorization", m.keys[other][tenant.Operator])
	if list := want[client.Badges](m.face, 200, "GET", "/api/v1/badges", "", "Authorization", m.keys[other][tenant.Viewer]); len(list.Badges) != 0 {
		t.Errorf("another's: %+v", list)
	}
}

// Whatever a job is called, its badge is a picture and nothing else.
func FuzzBadgeSVG(f *testing.F) {
	for _, label := range []string{"nightly", "<script>alert(1)</script>", `" onload="alert(1)`, "]]>&amp;", "\x00\x1b\xff\ufffe", strings.Repeat("é", 300), "\u202egnp.exe"} {
		f.Add(label)
	}
	f.Fuzz(func(t *testing.T, label string) {
		words := wellFormed(t, api.BadgeSVG(label, "up"))
		if words[len(words)-1] != "up" {
			t.Errorf("%q says %q", label, words)
		}
	})
}
