package job

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A bucket whose rate changes holds as many tokens as before, as far as they fit, and one that is full stays full.
// A bucket never lacks more than it holds: of a clock that was set back it would for as long as that was.
func TestABucketAfterAClockWasSetBack(t *testing.T) {
	is := Rate{Count: 2, Per: time.Second, Burst: 3}.Pace()
	const now = int64(1_900_000_000_000_000)
	if full := is.Rescale(is, now+time.Hour.Microseconds(), now); full != now+3*500_000 {
		t.Errorf("it is full in %v", time.Duration(full-now)*time.Microsecond)
	}
}

func TestRescale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := func(name string) Rate {
			return Rate{
				Count: rapid.IntRange(1, MaxAtOnce).Draw(t, name+" count"), Burst: rapid.IntRange(1, MaxAtOnce).Draw(t, name+" burst"),
				Per: time.Duration(rapid.Int64Range(1, maxPer.Microseconds()).Draw(t, name+" per")) * time.Microsecond,
			}
		}
		was, is := rate("was").Pace(), rate("is").Pace()
		now := int64(1_900_000_000_000_000)
		lacks := rapid.Int64Range(-5, was.Burst*was.Step).Draw(t, "lacks")
		full := is.Rescale(was, now+lacks, now)
		if whole := is.Burst * is.Step; full < now || full > now+whole {
			t.Fatalf("it lacks %d of %d", full-now, whole)
		}
		if lacks <= 0 {
			if full != now {
				t.Fatal("it was full, and is not")
			}
			return
		}
		if was == is {
			if full != now+lacks {
				t.Fatal("nothing changed, and it holds another number")
			}
			return
		}
		before := min(float64(was.Burst)-float64(lacks)/float64(was.Step), float64(is.Burst))
		after := float64(is.Burst) - float64(full-now)/float64(is.Step)
		if d := after - before; d > 1e-3 || d < -1.001 { // whole microseconds, rounded to fewer tokens
			t.Fatalf("it held %g, and holds %g", before, after)
		}
	})
}
