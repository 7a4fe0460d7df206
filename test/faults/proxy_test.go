package faults

import (
	"net"
	"sync"
	"testing"
)

// link is a connection between two parts that a test can disturb: it passes bytes on, holds them back, or resets.
type link struct {
	net.Listener
	to string

	mu    sync.Mutex
	ways  [2]chan struct{}      // guarded by mu: closed while bytes may pass; there, and back
	conns map[net.Conn]struct{} // guarded by mu
}

// The two ways of a link.
const (
	there = 0
	back  = 1
)

// newLink listens for what is to be passed on to an address.
func newLink(t *testing.T, to string) *link {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{Listener: ln, to: to, conns: map[net.Conn]struct{}{}}
	l.open(there, back)
	go l.serve()
	t.Cleanup(func() { ln.Close(); l.reset() })
	return l
}

func (l *link) serve() {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			far, err := net.Dial("tcp", l.to)
			if err != nil {
				c.Close()
				return
			}
			l.mu.Lock()
			l.conns[c], l.conns[far] = struct{}{}, struct{}{}
			l.mu.Unlock()
			go l.pass(there, far, c)
			l.pass(back, c, far)
			l.mu.Lock()
			delete(l.conns, c)
			delete(l.conns, far)
			l.mu.Unlock()
		}()
	}
}

// pass copies one way of a connection, while that way is open.
func (l *link) pass(way int, to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		l.mu.Lock()
		gate := l.ways[way]
		l.mu.Unlock()
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

// hold keeps back what comes by the ways.
func (l *link) hold(ways ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range ways {
		l.ways[w] = make(chan struct{})
	}
}

// open lets everything pass again, also what was held back.
func (l *link) open(ways ...int) {
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

// reset ends all connections, and with them what was held back.
func (l *link) reset() {
	l.mu.Lock()
	for c := range l.conns {
		if t, ok := c.(*net.TCPConn); ok {
			_ = t.SetLinger(0)
		}
		c.Close()
	}
	l.mu.Unlock()
	l.open(there, back) // for those who wait in pass
}
