package app

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/bench"
	"github.com/carillon-jobs/carillon/internal/blob/folder"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlite"
	"github.com/carillon-jobs/carillon/internal/replica"
)

// openReplicated opens an empty store that is replicated into a folder on the same disk, or one that is not.
func openReplicated(ctx context.Context, dir string, replicated bool) (engine.Store, func(context.Context) error, error) {
	path := filepath.Join(dir, "carillon.db")
	if !replicated {
		s, err := sqlite.Open(ctx, sqlite.Config{Path: path})
		if err != nil {
			return nil, nil, err
		}
		return s, func(context.Context) error { return s.Close() }, s.Migrate(ctx)
	}
	ship, err := replica.New(replica.Config{
		Place: folder.New(filepath.Join(dir, "place")), Folder: path + spoolEnding, Every: 500 * time.Millisecond, Snapshots: time.Hour, Keep: time.Hour, Spool: 1 << 30, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, nil, err
	}
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path, Tap: ship.Tap()})
	if err == nil {
		err = s.Migrate(ctx)
	}
	if err == nil {
		err = ship.Bind(ctx, s)
	}
	if err != nil {
		return nil, nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { ship.Run(running); close(done) }()
	return s, func(context.Context) error {
		cancel()
		<-done
		if x := ship.Status(); x.Failing != nil || x.Segments == 0 || x.Generations != 1 {
			return errors.Join(errors.New("the store was not replicated without a gap"), x.Failing)
		}
		return s.Close()
	}, nil
}

// BenchmarkReplicated creates and runs jobs at once, and creates single jobs, on a store that is replicated and on one that is not, in
// turns. It reports the medians of what the replicated store has of the other's rates, and of its processor time, in percent.
//
//	go test ./internal/app -run - -bench Replicated -benchtime 1x
func BenchmarkReplicated(b *testing.B) {
	const turns = 3
	percent := func(with, without float64) float64 { return 100 * with / without }
	for b.Loop() {
		shares := map[string][]float64{}
		for turn := range turns {
			rates := map[bool]bench.Report{}
			for _, replicated := range []bool{turn%2 == 0, turn%2 != 0} {
				rep, err := bench.Run(b.Context(), bench.Options{
					Open: func(ctx context.Context) (engine.Store, func(context.Context) error, error) {
						return openReplicated(ctx, b.TempDir(), replicated)
					},
					Load: bench.Load{Inserters: 4, Batch: 1000, Payload: 256, Slots: 8}, Jobs: 60_000, Singles: 10_000, Callers: 100, Samples: 1, Only: []string{"both", "single"},
				})
				if err != nil {
					b.Fatal(err)
				}
				rates[replicated] = rep
			}
			with, without := rates[true], rates[false]
			for name, share := range map[string]float64{
				"create_and_run": percent(with.BothPerS, without.BothPerS), "create_and_run_cpu": percent(with.BothCost.Process, without.BothCost.Process),
				"singles": percent(with.SinglePerS, without.SinglePerS), "single_p50": percent(with.SingleMS.P50, without.SingleMS.P50), "single_p99": percent(with.SingleMS.P99, without.SingleMS.P99),
			} {
				shares[name] = append(shares[name], share)
			}
			b.Logf("turn %d: create and run %.0f of %.0f a second; single jobs %.0f of %.0f, p99 %.1f and %.1f ms", turn+1, with.BothPerS, without.BothPerS, with.SinglePerS, without.SinglePerS, with.SingleMS.P99, without.SingleMS.P99)
		}
		for name, all := range shares {
			slices.SortFunc(all, cmp.Compare[float64])
			b.ReportMetric(all[len(all)/2], "%_"+name)
		}
	}
}
