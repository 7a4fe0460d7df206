// Command bench measures, for each store, jobs a second for insert, claim, finish and the whole life of a job, beside
// a raw probe of the same engine in the same run: the same tables and batches in bare SQL, with no product code. It
// prints a ratio, since an absolute rate says more about the machine than about the program.
//
// Every run ends with a count: each job must be in history exactly once.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// settings holds the options of a run.
type settings struct {
	jobs     int
	batch    int
	engines  []string
	postgres string
	least    float64
	repeat   int
}

func main() {
	var s settings
	var engines string
	flag.IntVar(&s.jobs, "jobs", 200_000, "jobs for each measurement")
	flag.IntVar(&s.batch, "batch", 1000, "jobs in a batch")
	flag.IntVar(&s.repeat, "repeat", 3, "times the whole life is measured, alternating with the probe; the median counts")
	flag.StringVar(&engines, "engines", "sqlite,postgres", "stores to measure")
	flag.Float64Var(&s.least, "min", 0.5, "least ratio of the whole life to the raw probe; below it the exit code is 1")
	flag.Parse()
	s.engines, s.postgres = strings.Split(engines, ","), os.Getenv("CARILLON_BENCH_POSTGRES")
	if err := run(context.Background(), s, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// rates holds jobs per second in each phase.
type rates struct{ insert, claim, finish, life float64 }

// probe is something that can be measured: the product, or bare SQL.
type probe interface {
	// phases does insert, claim and finish one after the other.
	phases(ctx context.Context, s settings) (rates, error)
	// life does everything at once, and returns jobs per second from the first insert to the last finish.
	life(ctx context.Context, s settings) (float64, error)
}

// contest is one store with its two probes.
type contest struct {
	name         string
	product, raw probe
	close        func() error
}

func run(ctx context.Context, s settings, out, progress io.Writer) error {
	var slow error
	for _, name := range s.engines {
		b, err := open(ctx, name, s)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		err = measure(ctx, b, s, out, progress)
		err = errors.Join(err, b.close())
		var below tooSlow
		if errors.As(err, &below) {
			slow = err
		} else if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return slow
}

func open(ctx context.Context, name string, s settings) (contest, error) {
	switch name {
	case "sqlite":
		return openSQLite(ctx)
	case "postgres":
		if s.postgres == "" {
			return contest{}, errors.New("CARILLON_BENCH_POSTGRES names no server; 'make bench' starts one")
		}
		return openPostgres(ctx, s.postgres)
	}
	return contest{}, errors.New("no such store; want sqlite or postgres")
}

// tooSlow is the error of a ratio below the minimum.
type tooSlow struct {
	name        string
	ratio, want float64
}

func (t tooSlow) Error() string {
	return fmt.Sprintf("%s: the whole life reaches %.0f %% of the raw probe, want %.0f %%", t.name, 100*t.ratio, 100*t.want)
}

func measure(ctx context.Context, b contest, s settings, out, progress io.Writer) error {
	say := func(what string) { fmt.Fprintf(progress, "%s: %s …\n", b.name, what) }
	say("raw probe, phase by phase")
	raw, err := b.raw.phases(ctx, s)
	if err != nil {
		return err
	}
	say("Carillon, phase by phase")
	ours, err := b.product.phases(ctx, s)
	if err != nil {
		return err
	}
	var rawLives, ourLives []float64
	for i := range s.repeat {
		say(fmt.Sprintf("whole life, round %d of %d", i+1, s.repeat))
		r, err := b.raw.life(ctx, s)
		if err != nil {
			return err
		}
		o, err := b.product.life(ctx, s)
		if err != nil {
			return err
		}
		rawLives, ourLives = append(rawLives, r), append(ourLives, o)
	}
	raw.life, ours.life = median(rawLives), median(ourLives)
	fmt.Fprintf(out, "\n%s: %d jobs of 256 bytes in batches of %d\n\n", b.name, s.jobs, s.batch)
	fmt.Fprintf(out, "  %-12s %12s %12s %8s\n", "jobs/s", "Carillon", "raw SQL", "ratio")
	for _, row := range []struct {
		name      string
		ours, raw float64
	}{
		{"insert", ours.insert, raw.insert}, {"claim", ours.claim, raw.claim}, {"finish", ours.finish, raw.finish}, {"whole life", ours.life, raw.life},
	} {
		fmt.Fprintf(out, "  %-12s %12.0f %12.0f %6.0f %%\n", row.name, row.ours, row.raw, 100*row.ours/row.raw)
	}
	fmt.Fprint(out, "\n  lost 0, doubled 0: every job is in history exactly once\n")
	if ratio := ours.life / raw.life; ratio < s.least {
		return tooSlow{b.name, ratio, s.least}
	}
	return nil
}

func perSecond(n int, since time.Time) float64 { return float64(n) / time.Since(since).Seconds() }
