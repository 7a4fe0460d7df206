package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// RiverConfig holds the tuning options of River.
type RiverConfig struct {
	Clients     int           // clients that process jobs, each fetching on its own
	Workers     int           // MaxWorkers of each
	Cooldown    time.Duration // FetchCooldown
	Poll        time.Duration // FetchPollInterval
	Connections int
}

type riverPeer struct {
	config   RiverConfig
	pool     *pgxpool.Pool
	inserter *river.Client[pgx.Tx] // it only inserts
}

// riverArgs holds the arguments in the form River wants: with the name of their kind.
type riverArgs struct{ arguments }

func (riverArgs) Kind() string { return "noop" }

// riverWorker calls handle and does nothing else.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	handle func(seq int)
}

func (w *riverWorker) Work(_ context.Context, j *river.Job[riverArgs]) error {
	w.handle(j.Args.Seq)
	return nil
}

// OpenRiver migrates the empty database and returns River on it.
func OpenRiver(ctx context.Context, url string, c RiverConfig) (Peer, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(c.Connections)
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	p := &riverPeer{config: c, pool: pool}
	if err := p.prepare(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return p, nil
}

func (p *riverPeer) prepare(ctx context.Context) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(p.pool), &rivermigrate.Config{Logger: silent()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	p.inserter, err = river.NewClient(riverpgxv5.New(p.pool), &river.Config{
		Logger:        silent(),
		FetchCooldown: p.config.Cooldown, FetchPollInterval: p.config.Poll, // the cooldown also bounds how often an insert notifies
	})
	return err
}

func (p *riverPeer) Insert(ctx context.Context, seq int) error {
	_, err := p.inserter.Insert(ctx, riverArgs{argumentsOf(seq)}, nil)
	return err
}

func (p *riverPeer) Ways() []Way {
	return []Way{
		{"InsertManyFast", func(ctx context.Context, first, n int) error {
			_, err := p.inserter.InsertManyFast(ctx, riverParams(first, n))
			return err
		}},
		{"InsertMany", func(ctx context.Context, first, n int) error {
			_, err := p.inserter.InsertMany(ctx, riverParams(first, n))
			return err
		}},
	}
}

func riverParams(first, n int) []river.InsertManyParams {
	params := make([]river.InsertManyParams, n)
	for i := range params {
		params[i].Args = riverArgs{argumentsOf(first + i)}
	}
	return params
}

func (p *riverPeer) Work(ctx context.Context, handle func(seq int)) (func() error, error) {
	var clients []*river.Client[pgx.Tx]
	stop := func() (err error) {
		for _, c := range clients {
			err = errors.Join(err, c.Stop(ctx))
		}
		return err
	}
	for range p.config.Clients {
		c, err := p.worker(handle)
		if err == nil {
			err = c.Start(ctx)
		}
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		clients = append(clients, c)
	}
	return stop, nil
}

func (p *riverPeer) worker(handle func(seq int)) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{handle: handle})
	return river.NewClient(riverpgxv5.New(p.pool), &river.Config{
		Logger: silent(), Workers: workers,
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: p.config.Workers}},
		FetchCooldown: p.config.Cooldown, FetchPollInterval: p.config.Poll,
	})
}

func (p *riverPeer) Unfinished(ctx context.Context) (n int, err error) {
	return n, p.pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state IN ('available', 'running', 'retryable', 'pending', 'scheduled')`).Scan(&n)
}

func (p *riverPeer) Clear(ctx context.Context) error {
	_, err := p.pool.Exec(ctx, `TRUNCATE river_job`)
	return err
}

func (p *riverPeer) Settle(ctx context.Context) error {
	_, err := p.pool.Exec(ctx, `VACUUM ANALYZE river_job`)
	return err
}

func (p *riverPeer) Settings() string {
	return fmt.Sprintf("%d clients with MaxWorkers %d, FetchCooldown %v, FetchPollInterval %v, %d connections", p.config.Clients, p.config.Workers, p.config.Cooldown, p.config.Poll, p.config.Connections)
}

func (p *riverPeer) Close() { p.pool.Close() }

// silent keeps a peer's log out of the report; failures are returned as errors.
func silent() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }
