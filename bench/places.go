package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience limits how long a server may take to start, stop or clean up.
const patience = 30 * time.Second

// inspect returns the version and durability of the server. It refuses a server that may lose acknowledged writes,
// because its numbers would not be comparable.
func inspect(ctx context.Context, server string) (string, error) {
	var version, fsync, commit string
	err := withPostgres(ctx, server, func(c *pgx.Conn) error {
		return c.QueryRow(ctx, `SELECT current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')`).Scan(&version, &fsync, &commit)
	})
	if err != nil {
		return "", fmt.Errorf("PostgreSQL: %w", err)
	}
	if fsync != "on" || commit != "on" {
		return "", fmt.Errorf("PostgreSQL has fsync=%s and synchronous_commit=%s; want on for both", fsync, commit)
	}
	return fmt.Sprintf("PostgreSQL %s with fsync and synchronous_commit on", version), nil
}

// checkpoint flushes what earlier systems wrote, so that no system pays for another.
func checkpoint(ctx context.Context, server string) error {
	return execute(ctx, server, `CHECKPOINT`)
}

// newDatabase creates a database on the server.
func newDatabase(ctx context.Context, server string) (string, func() error, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme == "" {
		return "", nil, errors.New("CARILLON_BENCH_POSTGRES is not a URL; want postgres://USER@HOST:PORT/NAME")
	}
	name := fmt.Sprintf("carillon_peers_%d_%d", os.Getpid(), rand.Uint32())
	quoted := pgx.Identifier{name}.Sanitize()
	if err := execute(ctx, server, `CREATE DATABASE `+quoted); err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		return execute(ctx, server, `DROP DATABASE IF EXISTS `+quoted+` WITH (FORCE)`)
	}, nil
}

func execute(ctx context.Context, server, statement string) error {
	return withPostgres(ctx, server, func(c *pgx.Conn) error {
		_, err := c.Exec(ctx, statement)
		return err
	})
}

func withPostgres(ctx context.Context, server string, do func(*pgx.Conn) error) error {
	c, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close(ctx))
}

func newSQLite(dir string) (string, func() error, error) {
	folder, remove, err := newFolder(dir, "sqlite-")
	return "sqlite:" + filepath.Join(folder, "carillon.db"), remove, err
}

func newFolder(dir, prefix string) (string, func() error, error) {
	folder, err := os.MkdirTemp(dir, prefix)
	if err != nil {
		return "", nil, err
	}
	folder, err = filepath.Abs(folder)
	return folder, func() error { return os.RemoveAll(folder) }, err
}

// newRedis starts a private Redis on a free port and in its own folder.
func newRedis(ctx context.Context, dir, fsync string) (string, func() error, error) {
	folder, remove, err := newFolder(dir, "redis-")
	if err != nil {
		return "", nil, err
	}
	port, err := freePort()
	if err != nil {
		return "", nil, errors.Join(err, remove())
	}
	appendonly := "yes"
	if fsync == "no" {
		appendonly = "no"
	}
	cmd := exec.Command("redis-server", "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", folder,
		"--appendonly", appendonly, "--appendfsync", fsync, "--save", "", "--logfile", filepath.Join(folder, "redis.log"))
	if err := cmd.Start(); err != nil {
		return "", nil, errors.Join(err, remove())
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	stop := func() error { return errors.Join(terminate(cmd.Process, ended), remove()) }
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := listening(ctx, address); err != nil {
		return "", nil, errors.Join(fmt.Errorf("redis-server: %w", err), stop())
	}
	return address, stop, nil
}

// terminate asks a process to end, and kills it if it does not.
func terminate(p *os.Process, ended <-chan error) error {
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-time.After(patience):
		err := p.Kill()
		<-ended
		return err
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// listening waits until a server answers at the address.
func listening(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var dialer net.Dialer
	for {
		c, err := dialer.DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("nothing listens at %s: %w", address, err)
		}
	}
}
