package worker

import "context"

// The streams of a log.
const (
	Stdout = "stdout"
	Stderr = "stderr"
)

// logger takes the lines of one attempt's log.
type logger interface {
	line(stream, text string)
}

type logKey struct{}

// Log adds a line to the log of the attempt that ctx belongs to. Out of an attempt it does nothing.
func Log(ctx context.Context, stream, text string) {
	if l, ok := ctx.Value(logKey{}).(logger); ok {
		l.line(stream, text)
	}
}
