package engine

import (
	"sync"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Memo decodes stored definitions, identical ones only once: among many jobs due together most are. It is safe for
// concurrent use. Its results share lists and maps, and must not be modified.
type Memo struct {
	mu   sync.RWMutex
	jobs map[string]*job.Job // guarded by mu: by the stored form
}

// The memo stays below a few megabytes: when full it is emptied, and refills with what is in use.
const (
	maxMemos    = 1024
	maxMemoForm = 2048 // bytes of one
)

// Decode decodes a stored spec and target into a job whose schedule type is set.
func (m *Memo) Decode(spec, target []byte, j *job.Job) error {
	var room [512]byte
	key := append(append(append(room[:0], byte(j.Schedule.Type)), spec...), target...) // no JSON object begins another
	m.mu.RLock()
	known := m.jobs[string(key)]
	m.mu.RUnlock()
	if known == nil {
		var err error
		if known, err = m.read(spec, target, j.Schedule.Type); err != nil {
			return err
		}
		if len(key) <= maxMemoForm {
			m.keep(string(key), known)
		}
	}
	d, k := &j.Definition, &known.Definition
	j.Group, j.PausedAt, j.ResumedAt = known.Group, known.PausedAt, known.ResumedAt
	d.Target, d.Schedule, d.Retry, d.Rate = k.Target, k.Schedule, k.Retry, k.Rate
	d.MaxConcurrent, d.ConcurrencyKey, d.UniqueKey, d.ExpiresAfter, d.AutoRedriveAfter = k.MaxConcurrent, k.ConcurrencyKey, k.UniqueKey, k.ExpiresAfter, k.AutoRedriveAfter
	d.Description, d.Owner, d.Runbook, d.Queue, d.Labels = k.Description, k.Owner, k.Runbook, k.Queue, k.Labels
	d.Overlap, d.CatchUp, d.CatchUpLimit = k.Overlap, k.CatchUp, k.CatchUpLimit
	d.Retention = k.Retention
	d.DependsOn, d.DependsIf = k.DependsOn, k.DependsIf
	return nil
}

func (m *Memo) read(spec, target []byte, t job.ScheduleType) (*job.Job, error) {
	j := &job.Job{}
	j.Schedule.Type = t
	var err error
	if j.Target, err = DecodeTarget(target); err != nil {
		return nil, err
	}
	return j, DecodeSpec(spec, j)
}

func (m *Memo) keep(key string, j *job.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.jobs == nil || len(m.jobs) >= maxMemos {
		m.jobs = map[string]*job.Job{}
	}
	m.jobs[key] = j
}
