package postgres

import (
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
)

func tidyAll(t *testing.T, s *Store) (rounds int) {
	t.Helper()
	for more := true; more; rounds++ {
		more = must[bool](t)(s.Tidy(t.Context()))
	}
	return rounds
}

// What secrets were goes after a while, however much it is.
func TestPastSecretsGo(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	put := "INSERT INTO past_secrets (tenant, name, job, key_id, sealed, dropped_at) SELECT 'default', 'x', gen_random_uuid(), 'k', 'x', now() - make_interval(secs => $2) FROM generate_series(1, $1)"
	exec(t, c, put, 2*tidiedOps+1, engine.PastLife.Seconds()+1)
	exec(t, c, put, 3, engine.PastLife.Seconds()-3600)
	if rounds := tidyAll(t, s); rounds != 3 {
		t.Errorf("it took %d rounds", rounds)
	}
	if got := one[int](t, c, "SELECT count(*) FROM past_secrets"); got != 3 {
		t.Errorf("%d are left", got)
	}
}

// What runs of a deleted job may last for a week, and tell its credentials until then.
func TestCredentialsOfADeletedJobOutliveWhatRuns(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	c := direct(t, s)
	x := creation(t, s, 1)
	j := x.Jobs[0]
	x.Secrets = []engine.Secret{{Tenant: j.Tenant, Name: "~" + j.ID.String() + "/x-token", Job: j.ID, CreatedAt: j.CreatedAt, UpdatedAt: j.CreatedAt, Key: "k", Sealed: []byte("x")}}
	store(t, s, x)
	must[engine.Deleted](t)(s.DeleteJob(t.Context(), j.Tenant, engine.Deletion{Job: j.ID, AsOf: j.CreatedAt}))
	for _, at := range []struct {
		later string
		there bool
	}{{"7 days 23 hours", true}, {"2 hours", false}} {
		exec(t, c, "UPDATE secrets SET expires_at = expires_at - $1::text::interval", at.later)
		tidyAll(t, s)
		if _, err := s.Secret(t.Context(), j.Tenant, x.Secrets[0].Name); (err == nil) != at.there {
			t.Errorf("%s later: %v", at.later, err)
		}
	}
}
