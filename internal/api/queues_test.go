package api_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
)

const mailJob = `{"name": "mail", "queue": "mail", "execution": {"target": "worker", "kind": "send-email"}}`

func TestPauseAndResumeOfAQueue(t *testing.T) {
	f := newFace(t)
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"], "queues": ["mail"], "capacity": 7}`)
	claim := func(wait string) []client.Attempt {
		t.Helper()
		return want[client.Claimed](f, 200, "POST", "/api/v1/workers/"+s.WorkerID+"/claim", `{"max": 10, "wait_seconds": `+wait+`}`, "X-Worker-Session", s.Session).Attempts
	}
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	q := want[client.Queue](f, 200, "POST", "/api/v1/queues/mail/pause", `{"reason": "moved", "until": "`+until.Format(time.RFC3339)+`"}`)
	if q.Queue != "mail" || q.Pause == nil || *q.Pause.Reason != "moved" || !q.Pause.Until.Equal(until) || q.Pause.By == "" || time.Since(q.Pause.At) > time.Minute {
		t.Fatalf("paused: %+v", q)
	}
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", mailJob)
	if got := claim("3"); len(got) != 0 {
		t.Fatalf("%d of a paused queue were given", len(got))
	}
	x := want[client.Explanation](f, 200, "GET", "/api/v1/executions/"+j.ExecutionID+"/explain", "")
	if x.Code != "QUEUE_PAUSED" || x.Details.Reason != "moved" || x.Details.By != q.Pause.By || !x.Details.Until.Equal(until) || !strings.Contains(x.Summary, "because: moved.") {
		t.Errorf("explained: %+v", x)
	}
	if l := want[client.Limit](f, 200, "PUT", "/api/v1/limits/queues/mail", `{"max_concurrent": 3}`); l.Pause == nil || *l.Pause.Reason != "moved" {
		t.Errorf("a limit beside the pause: %+v", l)
	}
	if ls := want[client.Limits](f, 200, "GET", "/api/v1/limits", "").Limits; len(ls) != 1 || ls[0].Pause == nil || *ls[0].MaxConcurrent != 3 {
		t.Errorf("limits: %+v", ls)
	}
	all := want[client.Queues](f, 200, "GET", "/api/v1/queues", "")
	if len(all.Queues) != 2 || all.Queues[0].Queue != "default" || all.Queues[1].Queue != "mail" || all.Queues[1].Waiting != 1 || all.Queues[1].Pause == nil || all.Queues[1].Slots != 7 || *all.Queues[1].MaxConcurrent != 3 {
		t.Errorf("queues: %+v", all.Queues)
	}
	head := want[client.QueueHead](f, 200, "GET", "/api/v1/queues/mail/waiting?limit=5", "").Executions
	if len(head) != 1 || head[0].ExecutionID != j.ExecutionID || head[0].JobName != "mail" {
		t.Errorf("head: %+v", head)
	}
	sc := want[client.Scaling](f, 200, "GET", "/api/v1/admin/scaling", "")
	if sc.Waiting != 0 || sc.DesiredWorkers != 0 || sc.Paused != 1 {
		t.Errorf("scaling: %+v", sc)
	}
	if st := want[client.QueueStatus](f, 200, "GET", "/api/v1/admin/queue/status", ""); st.Pending != 1 || st.Paused != 1 {
		t.Errorf("status: %+v", st)
	}
	f.ask("DELETE", "/api/v1/workers/"+s.WorkerID, "", "X-Worker-Session", s.Session)
	if o := want[client.Overview](f, 200, "GET", "/api/v1/overview", ""); o.Health == "critical" || o.Queued != 1 || o.QueuedPaused != 1 || !strings.Contains(o.Sentence, "1 execution in paused queues") {
		t.Errorf("no worker is no trouble for a paused queue: %+v", o)
	}
	s = want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"], "capacity": 7}`)
	for range 2 { // the second changes nothing
		if q = want[client.Queue](f, 200, "POST", "/api/v1/queues/mail/resume", ""); q.Pause != nil || *q.MaxConcurrent != 3 {
			t.Errorf("resumed: %+v", q)
		}
	}
	if got := claim("5"); len(got) != 1 || got[0].ExecutionID != j.ExecutionID {
		t.Errorf("%d came when it was resumed", len(got))
	}
	if q := want[client.Queue](f, 200, "GET", "/api/v1/queues/other", ""); q.Queue != "other" || q.Waiting != 0 || q.Pause != nil {
		t.Errorf("a queue in which nothing has been: %+v", q)
	}
}

func TestWrongPausesOfQueues(t *testing.T) {
	f := newFace(t)
	for _, c := range []struct {
		path, body string
		code       int
		field      string
	}{
		{"mail/pause", `{"until": "2020-01-01T00:00:00Z"}`, 422, "until"},
		{"mail/pause", `{"reason": "` + strings.Repeat("é", 1001) + `"}`, 422, "reason"},
		{"mail/pause", `{"reason": "\u0000"}`, 422, "reason"},
		{"mail/pause", `{"because": "x"}`, 400, "because"},
		{"mail/resume", `{"reason": "x"}`, 400, "reason"},
		{"Mail/pause", ``, 422, "queue"},
		{strings.Repeat("q", 129) + "/resume", ``, 422, "queue"},
	} {
		p := want[client.Problem](f, c.code, "POST", "/api/v1/queues/"+c.path, c.body)
		if len(p.Errors) != 1 || p.Errors[0].Field != c.field {
			t.Errorf("%s %.40s: %+v", c.path, c.body, p)
		}
	}
	for _, path := range []string{"?limit=0", "?cursor=%20", "/mail/waiting?limit=101", "/mail/waiting?n=1", "/mail?x=1"} {
		want[client.Problem](f, 400, "GET", "/api/v1/queues"+path, "")
	}
	want[client.Problem](f, 404, "GET", "/api/v1/workers/nobody", "")
}

func TestQueuesAreListedInPages(t *testing.T) {
	f := newFace(t)
	for _, q := range []string{"a", "b", "c", "d"} {
		want[client.Queue](f, 200, "POST", "/api/v1/queues/"+q+"/pause", "")
	}
	var got []string
	for cursor := ""; ; {
		page := want[client.Queues](f, 200, "GET", "/api/v1/queues?limit=2&cursor="+cursor, "")
		for _, q := range page.Queues {
			got = append(got, q.Queue)
		}
		if page.Pagination.NextCursor == nil {
			break
		}
		if cursor = *page.Pagination.NextCursor; cursor == "b" {
			want[client.Queue](f, 200, "POST", "/api/v1/queues/b/resume", "")
			want[client.Queue](f, 200, "POST", "/api/v1/queues/aa/pause", "")
		}
	}
	if s := strings.Join(got, " "); s != "a b c d default" {
		t.Errorf("got %s", s)
	}
}

func TestCordonAndUncordonOfAWorker(t *testing.T) {
	f := newFace(t)
	s := want[client.Session](f, 201, "POST", "/api/v1/workers", `{"kinds": ["send-email"], "capacity": 7}`)
	at := "/api/v1/workers/" + s.WorkerID
	claim := func() int {
		t.Helper()
		return len(want[client.Claimed](f, 200, "POST", at+"/claim", `{"max": 1, "wait_seconds": 2}`, "X-Worker-Session", s.Session).Attempts)
	}
	for range 2 { // the second changes nothing
		if w := want[client.Worker](f, 200, "POST", at+"/cordon", ""); w.Status != "CORDONED" || w.WorkerID != s.WorkerID {
			t.Fatalf("%+v", w)
		}
	}
	j := want[client.Job](f, 201, "POST", "/api/v1/jobs", mailJob)
	if n := claim(); n != 0 {
		t.Errorf("a cordoned worker was given %d", n)
	}
	if x := want[client.Explanation](f, 200, "GET", "/api/v1/executions/"+j.ExecutionID+"/explain", ""); x.Code != "NO_WORKERS" {
		t.Errorf("explained: %+v", x)
	}
	if w := want[client.Worker](f, 200, "GET", at, ""); w.Status != "CORDONED" {
		t.Errorf("%+v", w)
	}
	want[client.Orders](f, 200, "POST", at+"/beat", `{"executions": []}`, "X-Worker-Session", s.Session)
	if w := want[client.Worker](f, 200, "POST", at+"/uncordon", ""); w.Status != "IDLE" {
		t.Errorf("%+v", w)
	}
	if n := claim(); n != 1 {
		t.Errorf("an uncordoned worker was given %d", n)
	}
	want[struct{}](f, 200, "DELETE", at, "", "X-Worker-Session", s.Session)
	want[client.Problem](f, 404, "POST", at+"/cordon", "")
	want[client.Problem](f, 404, "POST", "/api/v1/workers/nobody/uncordon", "")
}
