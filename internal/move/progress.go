package move

import "sync/atomic"

// counter counts rows for Progress.
type counter struct{ n atomic.Int64 }

// counted begins a stage.
func counted(tell Progress, stage string, total int64) *counter {
	c := &counter{}
	tell.Begin(stage, int(total), func() int { return int(c.n.Load()) })
	return c
}

func (c *counter) add(n int) { c.n.Add(int64(n)) }
