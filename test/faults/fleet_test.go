//go:build unix

package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	judge "github.com/carillon-jobs/carillon/internal/check"
	"github.com/carillon-jobs/carillon/test/harness"
)

// fleet is an installation of several servers and workers over a PostgreSQL of its own, with users of several tenants. Every
// link between two of these can be cut, and every process killed or stopped. make nemesis and make soak run one.
type fleet struct {
	*testing.T
	plan
	began   time.Duration // when the load did
	db      *privateServer
	rec     *harness.Recorder
	trails  *trails
	target  *target
	servers []*node
	workers []*node
	links   [][]*harness.Link // from each worker to each server

	tenants []string
	users   *crowd
	jobs    *ledger
	probes  []*recurring
	others  []*recurring

	faults   []*fault
	samples  *samples
	capacity float64       // executions a second, with all that it can do
	done     int           // results that were taken under load
	quiet    time.Duration // when all faults were over and all users were answered
	wrong    []string
	found    found
	history  *judge.History
}

// plan says what a run does.
type plan struct {
	seed    uint64
	lasts   time.Duration
	lease   time.Duration
	servers int
	workers int
	probes  int
	rate    float64       // jobs a second; 0: 70 % of what it measures first
	every   time.Duration // a fault begins so often; 0: soon after the one before is over
	spare   bool          // the first server and the first worker are never killed, so that their memory is measured all along
	atOnce  int           // executions of one tenant at once
	only    []string      // these kinds of faults, in turn; none: any, by the seed
	most    time.Duration // no fault lasts longer; 0: as the seed says
	options []string      // of PostgreSQL
}

// node is a place where a process runs, repeatedly.
type node struct {
	name  string
	store *harness.Link // of servers
	env   []string
	args  []string

	mu   sync.Mutex
	p    *harness.Process // guarded by mu
	life int              // guarded by mu
	base string           // guarded by mu: of servers, where the last process that has greeted listens
}

func (n *node) process() (*harness.Process, int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.p, n.life
}

// at returns where a server listens.
func (n *node) at() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.base
}

// start launches the process of a node, at ports that nobody else has, and waits until it has greeted.
func (n *node) start(t *testing.T) {
	t.Helper()
	p := harness.Launch(t, n.env, append(n.args, "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--log-level", "warn")...).Greeted()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.p, n.base = p, p.Base
	n.life++
}

func (n *node) kill() { p, _ := n.process(); p.Kill() }

// newFleet starts everything and waits until all of it answers.
func newFleet(t *testing.T, p plan) *fleet {
	t.Helper()
	f := &fleet{T: t, plan: p, rec: harness.NewRecorder(), trails: newTrails(), jobs: newLedger()}
	f.rec.Add = f.trails.add
	f.target = newTarget(t, f.rec)
	f.db = newServer(t, newFolder(t), p.options...)
	env := settings("", fmt.Sprintf("CARILLON_WORKERS_LEASE_TIMEOUT_SECONDS=%d", int(p.lease/time.Second)))
	for i := range p.servers {
		link, through := harness.LinkTo(t, f.db.url())
		n := &node{name: fmt.Sprintf("server %d", i+1), store: link, env: env}
		n.args = []string{"serve", "--database", through, "--roles", "api,scheduler"}
		f.servers = append(f.servers, n)
		n.start(t) // the first makes the schema
	}
	for i := range p.workers {
		n := &node{name: fmt.Sprintf("worker %d", i+1), env: env}
		var links []*harness.Link
		var to []string
		for s, server := range f.servers {
			front := f.rec.Front(t, server.at, func(session string) { f.trails.is(session, i) })
			links = append(links, harness.NewLink(t, strings.TrimPrefix(front, "http://")))
			to = append(to, "http://"+links[s].Addr().String())
		}
		f.links = append(f.links, links)
		to = append(to[i%len(to):], to[:i%len(to)]...)
		n.args = []string{"worker", "--server", strings.Join(to, ","), "--capacity", "16"}
		f.workers = append(f.workers, n)
		n.start(t)
	}
	f.users = &crowd{fleet: f, rng: rand.New(rand.NewPCG(p.seed, 2))}
	return f
}

// say notes what is wrong.
func (f *fleet) say(format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
}

// now returns how long the run has lasted.
func (f *fleet) now() time.Duration { return f.rec.Now() }
