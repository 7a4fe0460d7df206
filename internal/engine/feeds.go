package engine

import "context"

// Feeds is a store that several servers share and through which they notify each other of changes, while someone
// watches. A message is a hint: it may be lost.
type Feeds interface {
	// Publish sends a message of at most MaxMessage bytes to all servers, including the sender.
	Publish(ctx context.Context, message []byte) error
	// Subscribe calls begun when it begins, since something may have been missed before, and take with each message,
	// until ctx ends or the connection breaks.
	Subscribe(ctx context.Context, begun func(), take func(message []byte)) error
}

// MaxMessage limits the length of a message.
const MaxMessage = 7900
