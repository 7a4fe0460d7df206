package executor

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

// reaching is an attempt whose tenant may reach more.
func reaching(a client.Attempt, allow ...string) client.Attempt {
	a.CallbackAllow = allow
	return a
}

// What an operator allows one tenant counts for its callbacks alone: at the dial, on every hop, and with connections kept.
func TestATenantsOwnReach(t *testing.T) {
	t.Parallel()
	one, two := twins(t, "127.0.0.2", "127.0.0.1")
	inside, seenInside := serve(t, one, func(w http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
		}
	})
	_, seenOther := serve(t, two, func(http.ResponseWriter, *http.Request) {})
	_, port, _ := net.SplitHostPort(one.Addr().String())
	var answers atomic.Pointer[[]string]
	e := newExecutor(t, Config{Resolver: resolver(t, func(name string) ([]string, byte) {
		if strings.HasPrefix(name, "moves.test") {
			return *answers.Load(), 0
		}
		return []string{"127.0.0.2"}, 0
	})})
	hop := func(to string) client.Attempt {
		a := get(inside.URL + "/?to=" + to)
		a.Execution.FollowRedirects = true
		return a
	}
	check(t, e.Execute(t.Context(), get(inside.URL)), typeBlocked, false, "127.0.0.2 is a loopback address")
	for range 3 {
		check(t, e.Execute(t.Context(), reaching(get(inside.URL), "127.0.0.2/32")), "", false)
		check(t, e.Execute(t.Context(), get(inside.URL)), typeBlocked, false) // though there is a connection
		check(t, e.Execute(t.Context(), reaching(get(inside.URL), "127.0.0.3/32")), typeBlocked, false)
		check(t, e.Execute(t.Context(), reaching(get(inside.URL), "nonsense", "")), typeBlocked, false)
	}
	if got := seenInside.Load(); got != 1 {
		t.Errorf("%d connections inside, want 1", got)
	}
	check(t, e.Execute(t.Context(), reaching(hop("http://127.0.0.1:"+port), "127.0.0.2/32")), typeBlocked, false, "127.0.0.1")
	check(t, e.Execute(t.Context(), reaching(hop("http://169.254.169.254/"), "127.0.0.2/32", "169.254.0.0/16")), typeBlocked, false, "metadata")
	answers.Store(&[]string{"127.0.0.1"})
	check(t, e.Execute(t.Context(), reaching(hop("http://moves.test:"+port), "127.0.0.2/32")), typeBlocked, false, "127.0.0.1 of moves.test")
	answers.Store(&[]string{"127.0.0.2"})
	check(t, e.Execute(t.Context(), reaching(hop("http://moves.test:"+port+"/"), "127.0.0.2/32")), "", false)
	if got := seenOther.Load(); got != 0 {
		t.Errorf("%d connections to what is not allowed", got)
	}
	own := newExecutor(t, Config{OwnAddrs: func() []netip.AddrPort { return []netip.AddrPort{netip.MustParseAddrPort(one.Addr().String())} }})
	check(t, own.Execute(t.Context(), reaching(get(inside.URL), "127.0.0.0/8")), typeBlocked, false, "where Carillon itself listens")
}

func TestReachesAreBounded(t *testing.T) {
	t.Parallel()
	r := newReaches(Config{})
	first := r.of([]string{"10.0.0.0/8", "11.0.0.0/8"})
	if r.of([]string{"11.0.0.0/8", "10.0.0.0/8", "10.0.0.0/8"}) != first {
		t.Error("the same list has two")
	}
	for i := range 3 * maxReaches {
		r.of([]string{fmt.Sprintf("10.0.%d.0/24", i)})
	}
	if len(r.all) != maxReaches || len(r.age) != maxReaches || r.of([]string{"10.0.0.0/8", "11.0.0.0/8"}) == first {
		t.Errorf("%d of them, %d in order", len(r.all), len(r.age))
	}
}
