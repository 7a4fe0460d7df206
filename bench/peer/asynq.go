package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

// AsynqConfig holds the tuning options of asynq.
type AsynqConfig struct {
	Servers     int           // asynq.Server in this process; each fetches one job at a time
	Concurrency int           // of each server
	Enqueuers   int           // Enqueue calls at a time within a batch: asynq has no bulk insert
	Check       time.Duration // TaskCheckInterval: asynq polls
}

type asynqPeer struct {
	config    AsynqConfig
	redis     asynq.RedisClientOpt
	client    *asynq.Client
	inspector *asynq.Inspector
}

const asynqQueue = "default"

// OpenAsynq returns asynq on the Redis at address (host:port), which it may empty.
func OpenAsynq(address string, c AsynqConfig) (Peer, error) {
	p := &asynqPeer{config: c, redis: asynq.RedisClientOpt{Addr: address, PoolSize: 4*c.Enqueuers + 8*c.Servers}}
	p.client, p.inspector = asynq.NewClient(p.redis), asynq.NewInspector(p.redis)
	if err := p.client.Ping(); err != nil {
		p.Close()
		return nil, fmt.Errorf("redis at %s: %w", address, err)
	}
	return p, nil
}

func (p *asynqPeer) Ways() []Way { return []Way{{"Enqueue", p.enqueue}} }

func (p *asynqPeer) enqueue(ctx context.Context, first, n int) error {
	each := min(p.config.Enqueuers, n)
	failures := make([]error, each)
	var group sync.WaitGroup
	for i := range each {
		group.Go(func() {
			for seq := first + i; seq < first+n && failures[i] == nil; seq += each {
				failures[i] = p.Insert(ctx, seq)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

func (p *asynqPeer) Insert(ctx context.Context, seq int) error {
	payload, err := json.Marshal(argumentsOf(seq))
	if err != nil {
		return err
	}
	_, err = p.client.EnqueueContext(ctx, asynq.NewTask("noop", payload))
	return err
}

func (p *asynqPeer) Work(_ context.Context, handle func(seq int)) (func() error, error) {
	handler := asynq.HandlerFunc(func(_ context.Context, t *asynq.Task) error {
		var a arguments
		if err := json.Unmarshal(t.Payload(), &a); err != nil {
			return err
		}
		handle(a.Seq)
		return nil
	})
	var servers []*asynq.Server
	stop := func() error {
		for _, s := range servers {
			s.Shutdown()
		}
		return nil
	}
	for range p.config.Servers {
		s := asynq.NewServer(p.redis, asynq.Config{
			Concurrency: p.config.Concurrency, TaskCheckInterval: p.config.Check,
			LogLevel: asynq.FatalLevel, Queues: map[string]int{asynqQueue: 1},
		})
		if err := s.Start(handler); err != nil {
			return nil, errors.Join(err, stop())
		}
		servers = append(servers, s)
	}
	return stop, nil
}

func (p *asynqPeer) Unfinished(context.Context) (int, error) {
	info, err := p.inspector.GetQueueInfo(asynqQueue)
	if err != nil {
		return 0, err
	}
	return info.Pending + info.Active + info.Scheduled + info.Retry, nil
}

// Clear deletes the waiting jobs. asynq has deleted finished ones itself. The queue stays: a client creates it only
// once.
func (p *asynqPeer) Clear(context.Context) error {
	queues, err := p.inspector.Queues()
	if err != nil || !slices.Contains(queues, asynqQueue) {
		return err
	}
	_, err = p.inspector.DeleteAllPendingTasks(asynqQueue)
	return err
}

// Settle does nothing: Redis keeps no statistics of its data.
func (p *asynqPeer) Settle(context.Context) error { return nil }

func (p *asynqPeer) Settings() string {
	return fmt.Sprintf("%d servers with Concurrency %d, TaskCheckInterval %v, %d Enqueue calls at a time", p.config.Servers, p.config.Concurrency, p.config.Check, p.config.Enqueuers)
}

func (p *asynqPeer) Close() {
	_ = p.client.Close()    // losing an idle connection loses nothing
	_ = p.inspector.Close() // the same
}
