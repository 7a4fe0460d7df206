package sqlite

import (
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// The index live_unique restricts a key to one live execution; inserts look first, in the same transaction, to return
// the holder.

const holderSQL = "SELECT job, id FROM live INDEXED BY live_unique WHERE tenant = ? AND unique_key = ? AND unique_key IS NOT NULL"

// holder finds the live execution that holds a unique key, if there is one.
func holder(c *conn, t tenant.ID, key string) (in engine.Incumbent, taken bool, err error) {
	in.Key = key
	taken, err = c.prepare(holderSQL).text(string(t)).text(key).first(func(r *row) error {
		in.Job, in.Execution = r.id(), r.id()
		return nil
	})
	return in, taken, err
}

// holders finds the holders of the unique keys of a creation, each key once: another execution, or the first of its
// own if it names the key twice. A creation that is stored already has none: its keys are its own.
func holders(c *conn, x *prepared) (out []engine.Incumbent, err error) {
	var mine map[string]*job.Execution
	var told map[string]bool
	for n := range x.Executions {
		e := &x.Executions[n]
		if e.UniqueKey == "" || told[e.UniqueKey] {
			continue
		}
		if mine == nil {
			stored, err := exists(c, "SELECT 1 FROM jobs WHERE tenant = ? AND id = ?", x.Tenant, x.Jobs[0].ID)
			if err != nil || stored {
				return nil, err
			}
			mine, told = map[string]*job.Execution{}, map[string]bool{}
		}
		in, taken, err := holder(c, x.Tenant, e.UniqueKey)
		if err != nil {
			return nil, err
		}
		if first := mine[e.UniqueKey]; first != nil {
			in, taken = engine.Incumbent{Key: e.UniqueKey, Job: first.Job, Execution: first.ID}, true
		}
		mine[e.UniqueKey] = e
		if taken {
			told[e.UniqueKey] = true
			out = append(out, in)
		}
	}
	return out, nil
}
