package client

import (
	"encoding/json"
	"testing"
)

func TestQuotasAreReset(t *testing.T) {
	n := int64(5)
	for _, c := range []struct {
		change QuotaChange
		want   string
	}{
		{QuotaChange{ActiveJobs: &n}, `{"active_jobs":5}`},
		{QuotaChange{ActiveJobs: &n, Reset: []string{"max_retries"}}, `{"active_jobs":5,"max_retries":null}`},
		{QuotaChange{Reset: []string{"active_jobs"}}, `{"active_jobs":null}`},
	} {
		if got, err := json.Marshal(TenantChange{Quotas: &c.change}); err != nil || string(got) != `{"quotas":`+c.want+`}` {
			t.Errorf("got %s, %v; want %s", got, err, c.want)
		}
	}
}
