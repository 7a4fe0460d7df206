package job

import "math/bits"

// Pace describes how a token bucket fills: one token every Step microseconds, up to Burst. The zero Pace is unknown.
type Pace struct{ Step, Burst int64 }

// Pace returns how the bucket of a rate fills.
func (r Rate) Pace() Pace {
	step := r.Interval().Microseconds()
	return Pace{step, min(int64(max(r.Burst, 1)), (1<<60)/step)} // beyond that the sums would overflow
}

// Rescale returns when a bucket is full, in microseconds, if its pace changes now from was: it keeps the tokens that
// it holds, as far as they fit. A full bucket stays full.
func (b Pace) Rescale(was Pace, full, now int64) int64 {
	whole := b.Burst * b.Step
	switch {
	case full <= now:
		return now
	case was == b, was == (Pace{}):
		return min(full, now+whole) // it never lacks more, unless the clock was set back
	}
	holds := max(0, was.Burst*was.Step-(full-now)) // in time of the old rate
	high, low := bits.Mul64(uint64(holds), uint64(b.Step))
	if high >= uint64(was.Step) {
		return now
	}
	kept, _ := bits.Div64(high, low, uint64(was.Step))
	return now + whole - int64(min(kept, uint64(whole)))
}
