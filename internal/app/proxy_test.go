package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
)

// Callbacks of a server go through the proxy that its settings name, and what users read does not hold its credentials.
func TestCallbacksGoThroughTheProxy(t *testing.T) {
	asked := make(chan string, 16)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
		asked <- fmt.Sprint(r.Method, " ", r.Host, " ", user, " ", password)
		w.WriteHeader(http.StatusForbidden)
	}))
	defer proxy.Close()
	s := serve(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), func(o *app.Options) {
		o.Config.Callbacks.Proxy, o.Config.Callbacks.ProxyCredentials = proxy.URL, "carillon:hunter22"
	})
	j := s.run(`{"name": "x", "execution": {"callback_url": "http://93.184.215.14/"}}`, "FAILED")
	if got := <-asked; got != "CONNECT 93.184.215.14:80 carillon hunter22" {
		t.Errorf("the proxy was asked %q", got)
	}
	e := want[client.Execution](s, 200, "GET", "/api/v1/executions/"+j.ExecutionID, "")
	if e.Error == nil || e.Error.Type != "BLOCKED_ADDRESS" || !strings.Contains(e.Error.Message, "the egress proxy (callbacks.proxy) does not allow calls to 93.184.215.14:80") {
		t.Errorf("%+v", e.Error)
	}
}
