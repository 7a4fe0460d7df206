package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/api"
	"github.com/carillon-jobs/carillon/internal/peer"
)

// devTokenName is the name of the token file in the data folder.
const devTokenName = "dev-token"

// local creates the token of a server without sign-in, and stores it where only its user finds it.
func (r *running) local() (*api.Local, error) {
	token := rand.Text() + rand.Text() // 256 bits and more
	file, err := filepath.Abs(filepath.Join(r.Config.Data, devTokenName))
	if err != nil {
		return nil, err
	}
	if err := leave(file, token); err != nil {
		return nil, fmt.Errorf("store the token for the browser: %w", err)
	}
	files := []string{file}
	found, err := client.DevTokenFile(r.address.String())
	if err == nil {
		err = leave(found, token)
	}
	if err == nil {
		files = append(files, found)
		prune(filepath.Dir(found))
	} else {
		r.log.Info("the command line cannot find the token automatically: it could not be stored in the user's settings", "error", err, "token_file", file)
	}
	r.onStop("token", func() error {
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil && string(text) == token+"\n" { // another server may have started since
				_ = os.Remove(f) // a token that no server accepts is harmless
			}
		}
		return nil
	})
	port := 0
	if t, ok := r.address.(*net.TCPAddr); ok {
		port = t.Port
	}
	return &api.Local{Token: token, File: file, Port: port, Mine: mineOf(os.Getuid())}, nil
}

// maxPruned limits how many token files one start examines.
const maxPruned = 100

// prune removes the tokens of servers that were killed: those for addresses at which nothing listens.
func prune(dir string) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return // there is nothing to prune, or the next start does it
	}
	for _, f := range all[:min(len(all), maxPruned)] {
		i := strings.LastIndexByte(f.Name(), '_')
		if i < 0 || !f.Type().IsRegular() {
			continue
		}
		at, err := netip.ParseAddrPort(net.JoinHostPort(strings.ReplaceAll(f.Name()[:i], "_", ":"), f.Name()[i+1:]))
		if err != nil || !at.Addr().Unmap().IsLoopback() {
			continue
		}
		c, err := net.DialTimeout("tcp", at.String(), 200*time.Millisecond)
		var slow net.Error
		switch {
		case err == nil:
			c.Close()
		case !errors.As(err, &slow) || !slow.Timeout():
			_ = os.Remove(filepath.Join(dir, f.Name()))
		}
	}
}

// leave writes a token to a file that only its owner can read, atomically.
func leave(file, token string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(file), ".token-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(next.Name())
	_, err = next.WriteString(token + "\n")
	if bad := next.Close(); err == nil {
		err = bad
	}
	if err == nil {
		err = os.Rename(next.Name(), file)
	}
	return err
}

type peerKey struct{}

// withPeer tells requests the user at the other end of their connection.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, peer.Of(c))
}

// mineOf reports whether a request comes from a process of the user or of root.
func mineOf(own int) func(*http.Request) (bool, string) {
	return func(r *http.Request) (bool, string) {
		conn, _ := r.Context().Value(peerKey{}).(*peer.Conn)
		switch uid, ok := conn.UID(); {
		case !ok:
			return false, "a process whose user is not known"
		case uid == own || uid == 0:
			return true, ""
		default:
			return false, fmt.Sprintf("the user with the id %d", uid)
		}
	}
}
