package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
)

const (
	copyFrom  = 50      // the number of jobs from which COPY is faster, although it takes more round trips
	copyBytes = 4 << 20 // sent at once, so that each COPY ends in time
	races     = 5       // lost races against other creations before giving up
)

// batch holds what one call creates.
type batch struct {
	all    []engine.Creation
	chosen []int            // those to store, by position
	out    []engine.Created // the outcome of each of all
	pages  *pages           // their rows, if there are many
}

// CreateJobs stores each creation completely or not at all, and answers in their order.
func (s *jobs) CreateJobs(ctx context.Context, cs []engine.Creation) ([]engine.Created, error) {
	firsts, repeats := splitRepeats(cs)
	b := batch{all: cs, chosen: firsts, out: make([]engine.Created, len(cs))}
	if !s.noCopy.Load() {
		b = b.paged(s.packing())
	}
	defer b.pages.free()
	if err := s.create(ctx, b); err != nil {
		return nil, err
	}
	b.notePacked()
	var open []int
	for i := range cs {
		if first, ok := repeats[i]; ok && !b.answerRepeat(i, first) {
			open = append(open, i)
		}
	}
	if len(open) > 0 { // the first with their key was refused, so the key is free
		rest := make([]engine.Creation, len(open))
		for n, i := range open {
			rest[n] = cs[i]
		}
		answers, err := s.CreateJobs(ctx, rest)
		if err != nil {
			return nil, err
		}
		for n, i := range open {
			b.out[i] = answers[n]
		}
	}
	return b.out, nil
}

type scoped struct {
	tenant tenant.ID
	key    string
}

func compareScoped(a, b scoped) int {
	return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.key, b.key))
}

// splitRepeats finds creations with the idempotency key of an earlier one in the call.
func splitRepeats(cs []engine.Creation) (firsts []int, repeats map[int]int) {
	seen := map[scoped]int{}
	repeats = map[int]int{}
	for i, c := range cs {
		if k := (scoped{c.Tenant, c.Idempotency.Key}); k.key != "" {
			if first, ok := seen[k]; ok {
				repeats[i] = first
				continue
			}
			seen[k] = i
		}
		firsts = append(firsts, i)
	}
	return firsts, repeats
}

// answerRepeat answers a repeat from the outcome of the first with its key, if possible.
func (b batch) answerRepeat(i, first int) bool {
	f, same := b.out[first], b.all[i].Idempotency.Hash == b.all[first].Idempotency.Hash
	if f.Taken != "" || f.Reused || f.Unique != nil || f.Over {
		return false
	}
	switch {
	case !same:
		b.out[i].Reused = true
	case f.Replay != nil:
		b.out[i].Replay = f.Replay
	default:
		b.out[i].Replay = notNil(b.all[first].Idempotency.Answer)
	}
	return true
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// create stores the chosen creations: all at once, assuming that nothing conflicts, if there are no unique keys to
// detect conflicts; else at once after looking; else, if others got in between, one by one. Creations under a maximum
// number are looked at, too: only what is stored should count.
func (s *jobs) create(ctx context.Context, b batch) error {
	if len(b.chosen) == 0 {
		return nil
	}
	return s.write(ctx, "create jobs", func(ctx context.Context, pc *pgxpool.Conn) error {
		c := pc.Conn()
		for _, i := range b.chosen {
			b.out[i] = engine.Created{}
		}
		if !b.hasUnique() && !b.hasMost() && !b.hasWorkflow() {
			if err := b.insert(ctx, c, nil); !isCode(err, uniqueViolation) {
				return err
			}
		}
		return b.lookAll(ctx, c, c)
	})
}

// lookAll looks and stores, one by one if others got in between.
func (b batch) lookAll(ctx context.Context, db beginner, c *pgx.Conn) error {
	err := b.look(ctx, db, c)
	if !isCode(err, uniqueViolation) {
		return err
	}
	for _, i := range b.chosen {
		one := batch{b.all, []int{i}, b.out, b.pages}
		for race := 0; ; race++ {
			err := one.look(ctx, db, c)
			if err == nil {
				break
			}
			if !isCode(err, uniqueViolation) {
				return err
			}
			if race == races {
				return fmt.Errorf("%w: %w", engine.ErrConflict, err)
			}
		}
	}
	return nil
}

// beginner begins transactions: a connection, or a transaction, within which they are savepoints.
type beginner interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}

// look finds conflicts of each creation, and stores those without any.
func (b batch) look(ctx context.Context, db beginner, c *pgx.Conn) error {
	return pgx.BeginFunc(ctx, db, func(tx pgx.Tx) error {
		known, err := b.claimKeys(ctx, tx)
		if err != nil {
			return err
		}
		taken, err := b.existing(ctx, tx)
		if err != nil {
			return err
		}
		if err := b.incumbents(ctx, tx, taken.unique); err != nil {
			return err
		}
		room, err := b.room(ctx, tx)
		if err != nil {
			return err
		}
		good := batch{all: b.all, pages: b.pages}
		var undone []scoped
		for _, i := range b.chosen {
			x, out := &b.all[i], &b.out[i]
			k := scoped{x.Tenant, x.Idempotency.Key}
			*out = engine.Created{}
			if prior, ok := known[k]; ok && k.key != "" {
				if prior.hash == x.Idempotency.Hash {
					out.Replay = prior.answer
				} else {
					out.Reused = true
				}
				continue
			}
			if taken.has(x) {
				continue // this very call was made before, and its answer was lost
			}
			out.Taken, out.Unique = taken.claim(x)
			if out.Taken == "" && out.Unique == nil {
				out.Over = !room.take(x)
			}
			if out.Taken == "" && out.Unique == nil && !out.Over {
				good.chosen = append(good.chosen, i)
			} else if k.key != "" {
				undone = append(undone, k)
			}
		}
		if len(undone) > 0 {
			ts, ks := scopedArrays(undone)
			_, err := tx.Exec(ctx, `
				DELETE FROM idempotency i USING unnest($1::text[], $2::text[]) u(tenant, key)
				WHERE i.tenant = ANY (ARRAY[u.tenant]) AND i.key BETWEEN u.key AND u.key`, ts, ks)
			if err != nil {
				return err
			}
		}
		if err := room.keep(ctx, tx); err != nil {
			return err
		}
		for _, i := range good.chosen {
			x := &b.all[i]
			if x.Workflow == nil {
				continue
			}
			if err := addNodes(ctx, tx, x.Tenant, x.Nodes); err != nil {
				return err
			}
			if err := sqlstore.AddVersion(transaction{ctx: ctx, c: tx}, x.Workflow); err != nil {
				return err
			}
		}
		return good.insert(ctx, c, tx)
	})
}

// hasWorkflow reports whether versions of workflows are stored with the jobs.
func (b batch) hasWorkflow() bool {
	return slices.ContainsFunc(b.chosen, func(i int) bool { return b.all[i].Workflow != nil })
}

// addNodes stores the jobs of a workflow's inline nodes, before the secrets that they have.
func addNodes(ctx context.Context, tx pgx.Tx, t tenant.ID, nodes []job.Job) error {
	b := batch{all: []engine.Creation{{Tenant: t, Jobs: nodes}}, chosen: []int{0}}
	return b.insert(ctx, tx.Conn(), tx)
}

type answered struct {
	hash   [32]byte
	answer []byte
}

// claimKeys claims the free idempotency keys, and returns the earlier answers for the others.
func (b batch) claimKeys(ctx context.Context, tx speaker) (map[scoped]answered, error) {
	keys := b.keys(idempotencyTable.arrays())
	if keys.rows == 0 {
		return nil, nil
	}
	q := &pgx.Batch{}
	q.Queue(idempotencyTable.insert+`
		ON CONFLICT (tenant, key) DO UPDATE SET hash = EXCLUDED.hash, answer = EXCLUDED.answer, expires_at = EXCLUDED.expires_at
		WHERE idempotency.expires_at <= now()
		RETURNING tenant, key`, keys.args()...)
	q.Queue(`
		SELECT k.tenant, k.key, i.hash, i.answer FROM unnest($1::text[], $2::text[]) k(tenant, key)
		CROSS JOIN LATERAL (SELECT hash, answer FROM idempotency i WHERE i.tenant = k.tenant AND i.key = k.key OFFSET 0) i`, keys.cols[0], keys.cols[1])
	r := tx.SendBatch(ctx, q)
	defer r.Close()
	mine := map[scoped]bool{}
	var k scoped
	rows, err := r.Query()
	if err != nil {
		return nil, err
	}
	if _, err := pgx.ForEachRow(rows, []any{(*string)(&k.tenant), &k.key}, func() error { mine[k] = true; return nil }); err != nil {
		return nil, err
	}
	known := map[scoped]answered{}
	var hash, answer []byte
	rows, err = r.Query()
	if err != nil {
		return nil, err
	}
	_, err = pgx.ForEachRow(rows, []any{(*string)(&k.tenant), &k.key, &hash, &answer}, func() error {
		if !mine[k] {
			known[k] = answered{[32]byte(hash), notNil(answer)}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return known, r.Close()
}

// claims holds the job keys and unique keys in use, with their holders, and the first jobs of stored creations.
type claims struct {
	keys   map[scoped]job.ID
	unique map[scoped]engine.Incumbent
	ids    map[job.ID]bool
}

func (b batch) existing(ctx context.Context, tx pgx.Tx) (claims, error) {
	have := claims{map[scoped]job.ID{}, map[scoped]engine.Incumbent{}, map[job.ID]bool{}}
	var names []scoped
	ts, ids := texts(len(b.chosen)), uuids(len(b.chosen))
	for _, i := range b.chosen {
		t := b.all[i].Tenant
		for n, j := range b.all[i].Jobs {
			if n == 0 {
				ts.text(string(t))
				ids.uuid(j.ID)
			}
			if j.Key != "" {
				names = append(names, scoped{t, j.Key})
			}
		}
	}
	kts, ks := scopedArrays(names)
	rows, err := tx.Query(ctx, `
		SELECT k.tenant, k.key, j.id FROM unnest($1::text[], $2::text[]) k(tenant, key)
		CROSS JOIN LATERAL (SELECT id FROM jobs WHERE tenant = k.tenant AND key = k.key AND key IS NOT NULL AND state <> 4 OFFSET 0) j
		UNION ALL
		SELECT k.tenant, NULL, j.id FROM unnest($3::text[], $4::uuid[]) k(tenant, id)
		CROSS JOIN LATERAL (SELECT id FROM jobs WHERE tenant = k.tenant AND id = k.id OFFSET 0) j`, kts, ks, ts, ids)
	if err != nil {
		return have, err
	}
	var k scoped
	var j job.ID
	_, err = pgx.ForEachRow(rows, []any{(*string)(&k.tenant), (*text)(&k.key), (*[16]byte)(&j)}, func() error {
		if k.key == "" {
			have.ids[j] = true
		} else {
			have.keys[k] = j
		}
		return nil
	})
	return have, err
}

// has reports whether the creation is stored already: it is stored completely or not at all, so its first job tells.
func (h claims) has(c *engine.Creation) bool { return len(c.Jobs) > 0 && h.ids[c.Jobs[0].ID] }

// claim claims the creation's job keys and unique keys, or none of them, and returns those that are taken.
func (h claims) claim(c *engine.Creation) (taken string, held []engine.Incumbent) {
	var mine []scoped
	for _, j := range c.Jobs {
		if j.Key == "" {
			continue
		}
		k := scoped{c.Tenant, j.Key}
		if _, ok := h.keys[k]; ok {
			taken = j.Key
			break
		}
		h.keys[k] = j.ID
		mine = append(mine, k)
	}
	if taken == "" {
		if held = h.claimUnique(c); held == nil {
			return "", nil
		}
	}
	for _, k := range mine {
		delete(h.keys, k)
	}
	return taken, held
}

func scopedArrays(list []scoped) (tenants, keys *array) {
	slices.SortFunc(list, compareScoped)
	tenants, keys = texts(len(list)), texts(len(list))
	for _, k := range list {
		tenants.text(string(k.tenant))
		keys.text(k.key)
	}
	return tenants, keys
}
