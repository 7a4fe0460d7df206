package service

import (
	"context"
	"net/netip"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/egress"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// barred returns what is wrong with a target's URL under the server's and the tenant's rules for callbacks.
func (s *shared) barred(ctx context.Context, id tenant.ID, t *job.Target) (job.Invalids, error) {
	if t.Kind != job.HTTP {
		return nil, nil
	}
	return s.barredURL(ctx, id, "execution.callback_url", t.URL)
}

// barredURL returns what is wrong with a URL that is to be stored and called later.
func (s *shared) barredURL(ctx context.Context, id tenant.ID, field, raw string) (v job.Invalids, err error) {
	p, err := s.cfg.Egress.Refuse(raw, func() (egress.Tenant, error) {
		of, err := s.settings(ctx, id)
		return egress.Tenant{HTTPSOnly: of.HTTPSOnly, Named: rangesOf(of.Reach)}, err
	})
	if p != nil {
		v.Add(field, job.Show(p.Value), p.Want)
	}
	return v, err
}

// rangesOf parses a tenant's stored address ranges.
func rangesOf(reach string) (out []netip.Prefix) {
	for text := range strings.SplitSeq(reach, ",") {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}
