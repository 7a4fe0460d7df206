// Package apptest runs a whole server in the process of a test: API, scheduler and workers over an embedded store in
// a temporary folder, on a free loopback port. It is for tests of API clients: package client and the command line.
package apptest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/carillon-jobs/carillon/internal/app"
	"github.com/carillon-jobs/carillon/internal/config"
)

// Key is the API key, of role system, of servers with sign-in.
const Key = "a-bootstrap-key-of-thirty-two-characters-or-more"

// Dev starts a server without sign-in, and returns its address and a function that stops it.
func Dev() (url string, stop func(), err error) { return start(app.Options{Dev: true}) }

// Serve starts a server with sign-in that accepts Key.
func Serve() (url string, stop func(), err error) { return start(app.Options{}) }

// greeting collects what a server prints when it has started.
type greeting struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (g *greeting) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.b.Write(p)
}

var address = regexp.MustCompile(`(http://\S+)/readyz`)

func (g *greeting) address() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if m := address.FindSubmatch(g.b.Bytes()); m != nil {
		return string(m[1])
	}
	return ""
}

func start(o app.Options) (string, func(), error) {
	dir, err := os.MkdirTemp("", "carillon-apptest-")
	if err != nil {
		return "", nil, err
	}
	out := &greeting{}
	c := config.Default()
	c.Listen, c.Data, c.Database, c.Roles, c.BootstrapKey = "127.0.0.1:0", dir, "sqlite:"+filepath.Join(dir, "carillon.db"), config.Roles, Key
	c.Commands.Allow, c.Workers.Drain = o.Dev, time.Second
	if !o.Dev {
		c.SecretsKey = base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	}
	o.Config, o.Out, o.Logger = c, out, slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(ctx, o) }()
	stop := func() {
		cancel()
		<-ended
		os.RemoveAll(dir)
	}
	for began := time.Now(); time.Since(began) < 2*time.Minute; time.Sleep(2 * time.Millisecond) {
		if url := out.address(); url != "" {
			return url, stop, nil
		}
		select {
		case err := <-ended:
			cancel()
			os.RemoveAll(dir)
			return "", nil, fmt.Errorf("the server did not start: %w", err)
		default:
		}
	}
	stop()
	return "", nil, errors.New("the server did not greet within two minutes")
}
