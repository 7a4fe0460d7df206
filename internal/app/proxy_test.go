package app_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
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

// A proxy over https whose certificate no authority of the system signed is trusted by callbacks.proxy_ca_file alone.
func TestAProxyWithACertificateOfItsOwn(t *testing.T) {
	asked := make(chan string, 16)
	proxy := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.Host
		w.WriteHeader(http.StatusForbidden)
	}))
	proxy.Config.ErrorLog = log.New(io.Discard, "", 0) // it is told of each certificate that is refused
	proxy.StartTLS()
	defer proxy.Close()
	file := filepath.Join(t.TempDir(), "proxy.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	const body = `{"name": "x", "retry_policy": {"max_retries": 0}, "execution": {"callback_url": "https://93.184.215.14/"}}`
	for name, c := range map[string]struct{ ca, kind, says string }{
		"with it":    {file, "BLOCKED_ADDRESS", "does not allow calls to 93.184.215.14:443"},
		"without it": {"", "TLS_ERROR", "could not connect to the egress proxy (callbacks.proxy): its certificate is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, "sqlite:"+filepath.Join(t.TempDir(), "c.db"), func(o *app.Options) {
				o.Config.Callbacks.Proxy, o.Config.Callbacks.ProxyCA = proxy.URL, c.ca
			})
			j := s.run(body, "FAILED")
			e := want[client.Execution](s, 200, "GET", "/api/v1/executions/"+j.ExecutionID, "")
			if e.Error == nil || e.Error.Type != c.kind || !strings.Contains(e.Error.Message, c.says) {
				t.Errorf("%+v, want %s: %s", e.Error, c.kind, c.says)
			}
		})
	}
	if n := len(asked); n != 1 {
		t.Errorf("the proxy was asked %d times, want once, by the server that trusts it", n)
	}
	for name, path := range map[string]string{"missing": file + ".not", "empty": os.DevNull} {
		t.Run(name, func(t *testing.T) {
			c := config.Default()
			c.Listen, c.Data, c.Database, c.BootstrapKey = "127.0.0.1:0", t.TempDir(), "sqlite:"+filepath.Join(t.TempDir(), "c.db"), key
			c.Callbacks.Proxy, c.Callbacks.ProxyCA = proxy.URL, path
			var wrong config.Mistakes
			if err := app.Run(t.Context(), app.Options{Config: c, Out: io.Discard, Logger: slog.New(slog.DiscardHandler)}); !errors.As(err, &wrong) || wrong[0].Key != "callbacks.proxy_ca_file" || wrong[0].Value != path {
				t.Errorf("%v, want the setting, its value and what would be right", err)
			}
		})
	}
}
