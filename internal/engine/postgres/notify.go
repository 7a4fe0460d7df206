package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// channel is the channel on which servers notify each other of ready work. Every database has its own, so
// installations do not hear each other.
const channel = "carillon_ready"

// listenPause is how long a listener hears nothing before it checks its connection.
const listenPause = 20 * time.Second

// newName returns the name with which a store signs its notifications, so that it ignores its own.
func newName() string { return rand.Text() }

// Notify tells the other servers that something may have become ready.
func (s *servers) Notify(ctx context.Context) error {
	return s.write(ctx, "notify", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_notify($1, $2)", channel, s.name)
		return err
	})
}

// Listen calls wake when it begins, and whenever another server may have made
// something ready, until ctx ends or the connection breaks.
func (s *servers) Listen(ctx context.Context, wake func()) error {
	return s.listen(ctx, channel, wake, func(payload string) {
		if payload != s.name {
			wake()
		}
	})
}

// listen calls begun when it begins, since earlier notifications are not repeated, and take with each notification on
// a channel.
func (s *servers) listen(ctx context.Context, channel string, begun func(), take func(payload string)) error {
	c, err := pgx.ConnectConfig(ctx, s.admin.Copy())
	if err != nil {
		return translate("listen", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	}()
	if _, err := c.Exec(ctx, "LISTEN "+channel); err != nil {
		return translate("listen", err)
	}
	begun()
	for {
		wait, cancel := context.WithTimeout(ctx, listenPause)
		n, err := c.WaitForNotification(wait)
		cancel()
		switch {
		case err == nil:
			take(n.Payload)
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.DeadlineExceeded) && !c.IsClosed():
			if err := c.Ping(ctx); err != nil {
				return translate("listen", err)
			}
		default:
			return translate("listen", err)
		}
	}
}

// feed is the channel on which servers notify each other of changes, while someone watches.
const feed = "carillon_feed"

// Publish sends a message to all servers.
func (s *servers) Publish(ctx context.Context, message []byte) error {
	return s.look(ctx, "publish", func(ctx context.Context, c *pgxpool.Conn) error {
		_, err := c.Exec(ctx, "SELECT pg_notify($1, $2)", feed, string(message))
		return err
	})
}

// Subscribe calls begun when it begins, and take with each message, until ctx ends or the connection breaks.
func (s *servers) Subscribe(ctx context.Context, begun func(), take func(message []byte)) error {
	return s.listen(ctx, feed, begun, func(payload string) { take([]byte(payload)) })
}
