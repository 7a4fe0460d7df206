package harness

import (
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Link is a connection between two parts that a test can disturb: it forwards bytes, at once or later, holds them
// back, or resets.
type Link struct {
	net.Listener

	mu    sync.Mutex
	to    string                // guarded by mu
	ways  [2]chan struct{}      // guarded by mu: closed while bytes may pass; there, and back
	slow  time.Duration         // guarded by mu
	conns map[net.Conn]struct{} // guarded by mu
}

// The two ways of a link.
const (
	There = 0
	Back  = 1
)

// NewLink listens for connections to forward to an address.
func NewLink(t *testing.T, to string) *Link {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{Listener: ln, to: to, conns: map[net.Conn]struct{}{}}
	l.Open(There, Back)
	go l.serve()
	t.Cleanup(func() { ln.Close(); l.Reset() })
	return l
}

func (l *Link) serve() {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			l.mu.Lock()
			to := l.to
			l.mu.Unlock()
			far, err := net.Dial("tcp", to)
			if err != nil {
				c.Close()
				return
			}
			l.mu.Lock()
			l.conns[c], l.conns[far] = struct{}{}, struct{}{}
			l.mu.Unlock()
			go l.pass(There, far, c)
			l.pass(Back, c, far)
			l.mu.Lock()
			delete(l.conns, c)
			delete(l.conns, far)
			l.mu.Unlock()
		}()
	}
}

// pass copies one way of a connection, while that way is open.
func (l *Link) pass(way int, to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		l.mu.Lock()
		gate, slow := l.ways[way], l.slow
		l.mu.Unlock()
		if slow > 0 {
			<-time.After(slow)
		}
		<-gate
		if n > 0 {
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// Hold holds back the given ways.
func (l *Link) Hold(ways ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range ways {
		l.ways[w] = make(chan struct{})
	}
}

// Open lets everything pass again, including what was held back.
func (l *Link) Open(ways ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range ways {
		if l.ways[w] == nil {
			l.ways[w] = make(chan struct{})
		}
		select {
		case <-l.ways[w]:
		default:
			close(l.ways[w])
		}
	}
}

// Slow delays everything each way; 0 ends the delay.
func (l *Link) Slow(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = d
}

// Reset ends all connections, and with them what was held back.
func (l *Link) Reset() {
	l.mu.Lock()
	for c := range l.conns {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		c.Close()
	}
	l.mu.Unlock()
	l.Open(There, Back) // wakes the waiters in pass
}

// Lead makes new connections go to another address, as when a name or an address moves to another server.
func (l *Link) Lead(to string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
}

// LinkTo returns a link to the database of a URL, and the URL that goes through it.
func LinkTo(t *testing.T, where string) (*Link, string) {
	t.Helper()
	u, err := url.Parse(where)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLink(t, u.Host)
	u.Host = l.Addr().String()
	return l, u.String()
}
