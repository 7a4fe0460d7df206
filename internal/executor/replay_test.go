package executor

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

// A target that takes a request on a kept connection and closes it without an answer sees each attempt once.
func TestAnAttemptArrivesOnce(t *testing.T) {
	for _, method := range []string{"POST", "PUT", "DELETE", "GET", "HEAD"} {
		for _, payload := range []string{"", `{"a": 1}`} {
			t.Run(fmt.Sprint(method, " with ", len(payload), " bytes"), func(t *testing.T) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				var arrivals atomic.Int64
				go func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						go func() {
							defer c.Close()
							in := bufio.NewReader(c)
							for first := true; ; first = false {
								r, err := http.ReadRequest(in)
								if err != nil {
									return
								}
								_, _ = r.Body.Read(make([]byte, 100))
								arrivals.Add(1)
								if !first {
									return
								}
								fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
							}
						}()
					}
				}()
				e := New(Config{AllowLoopback: true})
				defer e.Close()
				a := client.Attempt{
					IdempotencyKey: "k", Payload: []byte(payload),
					Execution: client.Target{Target: "http", Method: method, CallbackURL: "http://" + l.Addr().String(), Headers: map[string]string{"Idempotency-Key": "x"}},
				}
				if o := e.Execute(t.Context(), a); o.Status != client.Succeeded {
					t.Fatalf("first: %+v", o)
				}
				o := e.Execute(t.Context(), a)
				if o.Status != client.Failed || o.Error.Type != typeReset || !o.Retryable {
					t.Errorf("second: %+v", o)
				}
				if n := arrivals.Load(); n != 2 {
					t.Errorf("two attempts arrived %d times", n)
				}
			})
		}
	}
}
