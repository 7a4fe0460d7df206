package api_test

import (
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// readHeaders lists the request headers that handlers read.
var readHeaders = []string{
	"Accept", "Accept-Encoding", "Authorization", "Content-Encoding", "Content-Type", "Cookie", "If-Match", "Last-Event-ID", "Origin",
	"Traceparent", "Tracestate", "X-Csrf-Token", "X-Forwarded-For", "X-Idempotency-Key", "X-Request-Id", "X-Tenant-Id", "X-Worker-Session",
}

// Whatever a header of a request says, the answer is never a 5xx, and tells what is wrong.
func FuzzHeaders(f *testing.F) {
	c := newCorpus(f)
	paths := make([]string, len(c.table))
	for i, r := range c.table {
		paths[i], _ = c.path(r)
	}
	for i := range readHeaders {
		for _, text := range []string{"", "x", "text/event-stream", "text/html;q=0.3, */*;q=x", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "1.1.1.1, ::1, x", `W/"7"`, "mine", "bytes=0-1", "gzip"} {
			f.Add(uint8(7*i), uint8(i), text)
		}
	}
	f.Fuzz(func(t *testing.T, route, name uint8, value string) {
		i := int(route) % len(c.table)
		r := c.table[i]
		role := tenant.Admin
		switch r.Needs {
		case tenant.Work:
			role = tenant.Worker
		case tenant.Run, tenant.Scale:
			role = tenant.System
		}
		q := made{route: r, method: r.Method, target: paths[i], body: r.Sample, headers: map[string]string{"Authorization": c.keys[mine][role], "X-Worker-Session": c.worker.Session}}
		q.headers[readHeaders[int(name)%len(readHeaders)]] = value
		w, waited := c.send(q)
		if waited && w.Code == 200 {
			return
		}
		if bad := c.judge(q, w); bad != "" {
			t.Errorf("%s\n%s\n\n%d %v\n%s", bad, q, w.Code, w.Header(), w.Body)
		}
	})
}
