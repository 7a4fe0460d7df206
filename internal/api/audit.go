package api

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/audit"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// auditRoutes returns the routes of the audit log.
func (s accessAPI) auditRoutes() []route {
	const group = "Access"
	return []route{
		{
			method: "GET", path: "/api/v1/audit", needs: tenant.Manage, group: group, summary: "List who changed what, latest first",
			detail: "Holds every change that someone requested in the tenant. Entries are written in the same transaction as the change, never modified, and kept for a year. If a filter matches few of very many, a page may end early: partial is true, and next_cursor continues the search.",
			params: auditParams, status: 200, answer: of[client.AuditEntries](), handle: s.listAudit,
		},
		{
			method: "GET", path: "/api/v1/audit/verify", needs: tenant.Manage, group: group, summary: "Verify the audit log",
			detail: "The entries form a hash chain. The response names the first entry that was altered.",
			params: verifyParams, status: 200, answer: of[client.AuditVerification](), handle: s.verifyAudit,
		},
	}
}

var auditParams = append([]param{
	{"action", "string", "An action, such as job.delete, or all actions of a kind, with a dot at the end, such as job."},
	{"object", "string", "Changes to this id or name."},
	{"principal", "string", "Changes by the credential with this name."},
	{"key_id", "string", "Changes by this API key."},
	{"from", "string", "At or after this date or time."},
	{"to", "string", "Before this date or time."},
}, pageParams...)

var verifyParams = []param{{"cursor", "string", "next_cursor of an earlier answer."}}

func wireEntry(e audit.Entry) client.AuditEntry {
	out := client.AuditEntry{
		Seq: e.Seq, At: e.At, Principal: e.By, Role: string(e.Role), KeyID: optional(e.Key), Action: e.Action, Object: e.Object, Count: e.Count, IP: e.From, RequestID: e.Request,
	}
	var d struct{ Before, After map[string]string }
	if json.Unmarshal(e.Detail, &d) == nil {
		out.Before, out.After = d.Before, d.After
	}
	for _, o := range e.Others() {
		out.Also = append(out.Also, client.AuditRequest{RequestID: o.Request, Object: o.Object, Count: o.Count})
	}
	return out
}

func (s accessAPI) listAudit(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, auditParams)
	if err != nil {
		return err
	}
	f := engine.AuditFilter{Action: q.text("action"), Object: q.text("object"), By: q.text("principal"), Key: q.text("key_id"), From: q.date("from"), Until: q.date("to")}
	page := q.page()
	if err := q.err(); err != nil {
		return err
	}
	found, err := s.service.AuditEntries(r.Context(), p, f, page)
	if err != nil {
		return err
	}
	out := client.AuditEntries{Audit: make([]client.AuditEntry, len(found.Entries)), Pagination: pagination(page, found.Total, found.Next)}
	out.Pagination.Partial = found.Partial
	for i, e := range found.Entries {
		out.Audit[i] = wireEntry(e)
	}
	return reply(w, 200, out)
}

func (s accessAPI) verifyAudit(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, verifyParams)
	if err != nil {
		return err
	}
	if err := q.err(); err != nil {
		return err
	}
	after, err := decodeSeal(q.values.Get("cursor"))
	if err != nil {
		return err
	}
	v, err := s.service.VerifyAudit(r.Context(), p, after)
	if err != nil {
		return err
	}
	return reply(w, 200, wireVerification(v))
}

func wireVerification(v service.Verification) client.AuditVerification {
	out := client.AuditVerification{OK: v.Broken == nil, Entries: v.Entries, Seals: v.Seals, FirstSeal: v.First, LastSeal: v.Head.Number, Unsealed: v.Unsealed}
	if v.Head.Number > 0 {
		out.LastSealAt, out.Head = instant(v.Head.At), new(hex.EncodeToString(v.Head.Hash[:]))
	}
	if b := v.Broken; b != nil {
		out.Broken = &client.AuditBroken{Seal: b.Seal, Reason: b.Why}
		if b.Seq != 0 {
			out.Broken.Seq = &b.Seq
		}
	}
	if v.More {
		out.NextCursor = new(encodeSeal(v.Head))
	}
	return out
}

// encodeSeal returns the cursor after a seal: its number and its sum.
func encodeSeal(s audit.Seal) string {
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint64(nil, uint64(s.Number)), s.Hash[:]...))
}

func decodeSeal(text string) (s audit.Seal, err error) {
	if text == "" {
		return s, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != 8+len(s.Hash) {
		return s, engine.ErrCursor
	}
	s.Number = int64(binary.BigEndian.Uint64(b))
	if copy(s.Hash[:], b[8:]); s.Number < 1 {
		return s, engine.ErrCursor
	}
	return s, nil
}
