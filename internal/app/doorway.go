package app

import (
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

// doorway is a listener that warns when it cannot accept connections, for example when the process is out of file
// descriptors. The HTTP server retries silently.
type doorway struct {
	net.Listener
	log  *slog.Logger
	said atomic.Int64 // when it last did, in seconds
}

// doorwayEvery is the time between two such warnings.
const doorwayEvery = 10 * time.Second

// Accept accepts the next connection.
func (d *doorway) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err == nil || errors.Is(err, net.ErrClosed) {
		return c, err
	}
	now, last := time.Now().Unix(), d.said.Load()
	if now-last >= int64(doorwayEvery/time.Second) && d.said.CompareAndSwap(last, now) {
		d.log.Warn("cannot accept new connections; open ones are still served. If there are too many open files, raise the limit (ulimit -n, LimitNOFILE)", "error", err)
	}
	return nil, err
}
