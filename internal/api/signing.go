package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
	"github.com/carillon-jobs/carillon/internal/sign"
)

func wireSigning(x engine.SigningSecret) client.SigningSecret {
	out := client.SigningSecret{ID: x.ID, Algorithm: string(sign.AlgorithmOf(x.Prefix)), Prefix: x.Prefix, Shown: x.Prefix != "", CreatedAt: x.CreatedAt}
	if out.Algorithm == string(sign.Ed25519) {
		out.PublicKey, out.Prefix = x.Prefix, x.Prefix[:10]
	}
	if !x.ExpiresAt.IsZero() {
		out.ExpiresAt = &x.ExpiresAt
	}
	return out
}

func (s accessAPI) listSigningSecrets(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	all, err := s.service.SigningSecrets(r.Context(), p)
	if err != nil {
		return err
	}
	out := client.SigningSecrets{
		SigningSecrets: make([]client.SigningSecret, len(all)), Pagination: client.Pagination{Limit: engine.MaxSigningSecrets, Total: int64(len(all))},
	}
	for i, x := range all {
		out.SigningSecrets[i] = wireSigning(x)
	}
	return reply(w, 200, out)
}

func (s accessAPI) addSigningSecret(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, o, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.SigningSecretRequest
	if err := decodeAny(data, &req); err != nil {
		return err
	}
	overlap := service.SecretOverlap
	if n := req.OverlapSeconds; n != nil {
		if overlap = seconds(*n); overlap < 0 || overlap > maxKeyOverlap {
			return job.Invalids{{Field: "overlap_seconds", Value: job.Show(*n), Want: "a whole number from 0 to 2592000 (30 days)"}}
		}
	}
	algorithm := sign.HMAC
	if req.Algorithm != "" {
		if algorithm = sign.Algorithm(strings.ToLower(req.Algorithm)); !slices.Contains(sign.Algorithms(), algorithm) {
			return job.Invalids{{Field: "algorithm", Value: req.Algorithm, Want: "hmac-sha256 or ed25519"}}
		}
	}
	x, secret, err := s.service.AddSigningSecret(r.Context(), p, algorithm, overlap, service.Once[engine.SigningSecret]{
		Key: o.key, Hash: o.hash, Encode: func(x engine.SigningSecret) []byte { return encoded([3]string{x.ID, p.Key, p.Name}) }, // never the secret
	})
	if err != nil {
		return err
	}
	out := wireSigning(x)
	if out.PublicKey == "" {
		out.Secret = secret
	}
	w.Header().Set("Location", fmt.Sprintf("/api/v1/signing-secrets/%s", x.ID))
	w.Header().Set("Cache-Control", "no-store")
	return reply(w, 201, out)
}

func (s accessAPI) revealSigningSecret(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	x, secret, err := s.service.RevealSigningSecret(r.Context(), p, r.PathValue("id"))
	if err != nil {
		return err
	}
	out := wireSigning(x)
	out.Secret = secret
	w.Header().Set("Cache-Control", "no-store")
	return reply(w, 200, out)
}

func (s accessAPI) deleteSigningSecret(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	x, err := s.service.DeleteSigningSecret(r.Context(), p, r.PathValue("id"))
	if err != nil {
		return err
	}
	x.ExpiresAt = time.Now().UTC().Truncate(time.Microsecond)
	return reply(w, 200, wireSigning(x))
}

// completeExecution accepts the outcome of an execution from its target, which authenticates with the token of its
// callback.
func (s accessAPI) completeExecution(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	id, err := job.ParseExecutionID(r.PathValue("id"))
	if err != nil || s.cfg.Tokens == nil {
		return sign.ErrToken // a caller without a token learns nothing about what exists
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return sign.ErrToken
	}
	of, lease, err := s.cfg.Tokens.Check(id, strings.TrimSpace(token))
	if err != nil {
		return err
	}
	if named := r.Header.Get("X-Tenant-ID"); named != "" && tenant.ID(named) != of {
		return sign.ErrToken
	}
	var req client.Outcome
	if err := s.readInto(w, r, 2*maxBody, &req); err != nil { // a result of maximum length fits
		return err
	}
	var v job.Invalids
	if req.ExecutionID != "" && req.ExecutionID != id.String() {
		v.Add("execution_id", req.ExecutionID, "that of the path, or nothing")
	}
	if req.FencingToken != 0 && req.FencingToken != int64(lease.Token) {
		v.Add("fencing_token", req.FencingToken, "that of the callback, or nothing")
	}
	switch strings.ToUpper(req.Status) {
	case client.Succeeded, client.Failed, client.Cancelled:
	default:
		v.Add("status", req.Status, "one of SUCCEEDED, FAILED, CANCELLED")
	}
	if err := v.Err(); err != nil {
		return err
	}
	req.ExecutionID, req.FencingToken = id.String(), int64(lease.Token)
	o, err := outcome(req)
	if err != nil {
		return err
	}
	os := []job.Outcome{o}
	if err := cleanOutcomes(r.Context(), s.cfg.Secrets, os, true); err != nil {
		return err
	}
	vs, err := s.cfg.Dispatch.Report(r.Context(), job.WorkerID{}, os)
	if err != nil {
		return err
	}
	ended(s.cfg.Secrets, os, vs)
	if !vs[0].Accepted {
		return refuse(409, "stale_token", "The attempt of this token is over: it timed out, was cancelled or ended, or another attempt has started.")
	}
	return reply(w, 200, wireVerdicts([]client.Outcome{req}, vs)[0])
}
