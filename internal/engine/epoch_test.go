package engine

import (
	"testing"
	"time"
)

func TestEpochs(t *testing.T) {
	day := func(n int) time.Time { return time.Date(2026, 1, 1+n, 12, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		epoch int64
		now   time.Time
		want  int64
	}{{1, day(0), 2}, {1, day(-400), 2}, {1, day(300), 300}, {300, day(300), 301}, {900, day(300), 901}, {1, day(20_000), 8000}, {8000, day(20_000), 8001}} {
		if got := NextEpoch(c.epoch, c.now); got != c.want || EpochOf(FirstToken(got)) != got || FirstToken(got) <= FirstToken(c.epoch)+1<<40-1 {
			t.Errorf("after %d on %v: got %d, want %d", c.epoch, c.now, got, c.want)
		}
	}
	const last = 7<<40 + 12345
	noon := day(300)
	first, second := TokenAfterLoss(last, noon), TokenAfterLoss(last, noon.Add(time.Second))
	if EpochOf(first) != 300 || second-first != 1<<23 || EpochOf(TokenAfterLoss(last, noon.Add(12*time.Hour-time.Second))) != 300 || TokenAfterLoss(second, noon) <= second {
		t.Errorf("after a loss: %d, a second later %d", first, second)
	}
	if FirstToken(8001) >= 1<<53 {
		t.Error("a token is too large for a JSON number")
	}
}
