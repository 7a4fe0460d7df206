//go:build unix

package faults

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
	"github.com/carillon-jobs/carillon/test/harness"
)

// privateServer is a PostgreSQL server of one test, which may crash it. It is made with the programs of the server that the
// other tests use and runs as the same user.
type privateServer struct {
	*testing.T
	bin, data string
	port      int
	user      *syscall.Credential
	settings  string // more options of its command line
}

// newFolder is a folder that another user may be given: those of a test are closed to others.
func newFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "carillon-faults-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// newServer makes a server in a folder, and starts it.
func newServer(t *testing.T, folder string, settings ...string) *privateServer {
	t.Helper()
	s := &privateServer{T: t, data: filepath.Join(folder, "data"), settings: strings.Join(settings, " ")}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, postgrestest.Server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	var other string
	if err := c.QueryRow(ctx, "SELECT (SELECT setting FROM pg_config WHERE name = 'BINDIR'), current_setting('data_directory')").Scan(&s.bin, &other); err != nil {
		t.Skipf("the programs of the server are not known: %v", err)
	}
	info, err := os.Stat(other)
	if err != nil {
		t.Skipf("the server runs on another machine: %v", err)
	}
	owner := info.Sys().(*syscall.Stat_t)
	if int(owner.Uid) != os.Getuid() {
		s.user = &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}
	}
	if err := os.Chown(folder, int(owner.Uid), int(owner.Gid)); err != nil {
		t.Skipf("the folder cannot be given to the user of the server: %v", err)
	}
	s.run("initdb", "--pgdata="+s.data, "--username=postgres", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "--wal-segsize=1")
	s.settle()
	return s
}

// settle gives the server a port, and starts it for as long as the test runs.
func (s *privateServer) settle() {
	s.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	s.port = ln.Addr().(*net.TCPAddr).Port
	ln.Close()
	s.start()
	s.Cleanup(func() { s.try("pg_ctl", "stop", "-D", s.data, "-m", "immediate", "-s") })
}

// address returns where the server listens.
func (s *privateServer) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

func (s *privateServer) start() {
	s.Helper()
	s.run("pg_ctl", "start", "-D", s.data, "-s", "-w", "-t", "60", "-l", filepath.Join(filepath.Dir(s.data), "server.log"),
		"-o", fmt.Sprintf("-p %d -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c shared_buffers=16MB -c max_wal_size=16MB -c min_wal_size=2MB %s", s.port, s.settings))
}

// crash ends the server without giving it time for anything.
func (s *privateServer) crash() {
	s.Helper()
	s.run("pg_ctl", "stop", "-D", s.data, "-m", "immediate", "-s", "-w")
}

func (s *privateServer) run(program string, args ...string) {
	s.Helper()
	if out, err := s.try(program, args...); err != nil {
		s.Fatalf("%s: %v\n%s", program, err, out)
	}
}

func (s *privateServer) try(program string, args ...string) ([]byte, error) {
	c := exec.Command(filepath.Join(s.bin, program), args...)
	c.Dir = filepath.Dir(s.data)
	if s.user != nil {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: s.user}
	}
	// A pipe would stay open for as long as the server that pg_ctl leaves behind.
	out, err := os.CreateTemp(s.TempDir(), "")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c.Stdout, c.Stderr = out, out
	err = c.Run()
	said, _ := os.ReadFile(out.Name())
	return said, err
}

// url is the address of the server's own database.
func (s *privateServer) url() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", s.port)
}

// databaseOn makes a database whose tables lie in a folder.
func (s *privateServer) databaseOn(folder string) string {
	s.Helper()
	if s.user != nil {
		if err := os.Chown(folder, int(s.user.Uid), int(s.user.Gid)); err != nil {
			s.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	c, err := pgx.Connect(ctx, s.url())
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close(ctx)
	// PostgreSQL copies a database into files with holes, and fills them when it needs the memory: later, on a full disk, also
	// for whoever only reads. A checkpoint fills them now.
	for _, sql := range []string{"CREATE TABLESPACE small LOCATION '" + folder + "'", "CREATE DATABASE small TABLESPACE small", "CHECKPOINT"} {
		if _, err := c.Exec(ctx, sql); err != nil {
			s.Fatal(err)
		}
	}
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/small?sslmode=disable", s.port)
}

// The database crashes repeatedly under load: what was acknowledged is there, what was not is resolved by its key or
// token, and everything continues by itself (row 13).
func TestTheDatabaseCrashesUnderLoad(t *testing.T) {
	t.Parallel()
	db := newServer(t, newFolder(t))
	in := install(t, db.url(), "api,scheduler")
	in.serve("")
	in.work("")
	in.work("")
	for range 3 {
		in.load(20)
		harness.Eventually(t, 30*time.Second, "some arrivals", func() bool { return len(in.target.Seen()) > 0 })
		db.crash()
		in.load(5)
		<-time.After(500 * time.Millisecond)
		db.start()
	}
	in.settle(history{})
}
