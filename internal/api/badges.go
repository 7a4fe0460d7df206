package api

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/service"
)

// badgeRoutes returns the routes of badges.
func (s settingsAPI) badgeRoutes() []route {
	const group = "Badges"
	return []route{
		{
			method: "GET", path: "/api/v1/badges", needs: tenant.Read, group: group, summary: "List badges, newest first",
			detail: "Their URLs are never shown.", params: pageParams, status: 200, answer: of[client.Badges](), handle: s.listBadges,
		},
		{
			method: "POST", path: "/api/v1/badges", needs: tenant.Write, group: group, summary: "Create a badge for a job",
			detail: "A badge has a URL that nobody can guess. Anyone who has it sees the job's name, or a label, and the job's state, without a credential, and nothing else. The response shows the URL once; Carillon keeps only a hash of it.",
			body:   of[client.BadgeRequest](), sample: `{"job_id": "key:nightly", "label": "Nightly report"}`, status: 201, answer: of[client.Badge](), handle: s.addBadge,
		},
		{
			method: "DELETE", path: "/api/v1/badges/{id}", needs: tenant.Write, group: group, summary: "Revoke a badge",
			detail: "Within 5 s no server serves it. Browsers and proxies may cache it for a minute.", status: 200, answer: of[client.Badge](), handle: s.deleteBadge,
		},
		{
			method: "GET", path: "/badges/{file}", needs: tenant.Open, group: group, summary: "Show the state of a badge's job",
			detail: "The file is the badge's token with .svg for an image, or with .json for its label and state. The state is the first that applies of: paused, down (the last execution failed, or did not start in time), late (due for more than 5 s and not fired), up, unknown (none has finished). You can embed it anywhere; it is cached for a minute.",
			bytes:  true, status: 200, handle: s.showBadge,
		},
	}
}

func wireBadge(b service.BadgeOf) client.Badge {
	return client.Badge{BadgeID: b.ID, JobID: b.Job.String(), JobName: b.Name, Label: optional(b.Label), CreatedAt: b.CreatedAt}
}

func (s settingsAPI) listBadges(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, pageParams)
	if err != nil {
		return err
	}
	page := q.page()
	if err := q.err(); err != nil {
		return err
	}
	if page.Cursor != "" {
		id, err := uuid.Parse(page.Cursor)
		if err != nil {
			return engine.ErrCursor
		}
		page.Cursor = id.String() // as ids are stored
	}
	found, err := s.service.Badges(r.Context(), p, page)
	if err != nil {
		return err
	}
	out := client.Badges{Badges: make([]client.Badge, len(found.Rows)), Pagination: pagination(page, found.Total, found.Next)}
	for i, b := range found.Rows {
		out.Badges[i] = wireBadge(b)
	}
	return reply(w, 200, out)
}

func (s settingsAPI) addBadge(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, o, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.BadgeRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	if req.Label != nil && *req.Label == "" {
		return job.Invalids{{Field: "label", Want: "1 to 80 characters, or null for the job's name"}}
	}
	token := access.NewBadge()
	b := engine.Badge{Label: deref(req.Label, ""), Hash: sha256.Sum256([]byte(token))}
	var out service.BadgeOf
	var replay []byte
	ref, err := parseRef(req.JobID)
	if err == nil {
		out, replay, err = s.service.AddBadge(r.Context(), p, ref, b, service.Once[service.BadgeOf]{
			Key: o.key, Hash: o.hash, Encode: func(b service.BadgeOf) []byte { return encoded(wireBadge(b)) }, // never the address
		})
	}
	switch {
	case errors.Is(err, engine.ErrNotFound):
		return job.Invalids{{Field: "job_id", Value: job.Show(req.JobID), Want: "the id of a job that is not deleted, or its key as key:…"}}
	case err != nil:
		return err
	case replay != nil:
		return again(w, 201, replay)
	}
	made := wireBadge(out)
	made.SVG, made.JSON = new("/badges/"+token+".svg"), new("/badges/"+token+".json")
	w.Header().Set("Location", "/api/v1/badges/"+out.ID)
	return reply(w, 201, made)
}

func (s settingsAPI) deleteBadge(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		return engine.ErrNotFound
	}
	b, err := s.service.DeleteBadge(r.Context(), p, id.String())
	if err != nil {
		return err
	}
	return reply(w, 200, wireBadge(b))
}

// badgeFile matches the end of a badge's URL.
var badgeFile = regexp.MustCompile(`^(cbg_[a-z2-7]{32})\.(svg|json)$`)

// showBadge answers anybody. It reveals nothing about a wrong token, and looking for it takes the same time however
// much of it is right: it is looked up by its hash.
func (s settingsAPI) showBadge(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	m, h := badgeFile.FindStringSubmatch(r.PathValue("file")), w.Header()
	if m == nil {
		h.Set("Cache-Control", "max-age=60")
		return errNoBadge
	}
	x, err := s.shown(r, sha256.Sum256([]byte(m[1])))
	if errors.Is(err, errNoBadge) {
		h.Set("Cache-Control", "max-age=60") // so that proxies cache it for that long, too
	}
	if err != nil {
		return err
	}
	kind, data := "application/json", encoded(client.BadgeState{Label: x.label, State: string(x.is)})
	if m[2] == "svg" {
		kind, data = "image/svg+xml; charset=utf-8", []byte(badgeSVG(x.label, x.is))
	}
	sum := sha256.Sum256(data)
	tag := `"` + hex.EncodeToString(sum[:12]) + `"`
	h.Set("Cache-Control", "max-age=60")
	h.Set("ETag", tag)
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	for known := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		if strings.TrimPrefix(strings.TrimSpace(known), "W/") == tag {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	h.Set("Content-Type", kind)
	w.WriteHeader(200)
	w.Write(data) // an error here means that the caller has gone
	return nil
}

// The colours of conditions: white text on each has a contrast of at least 4.5.
var badgeColours = map[service.Condition]string{
	service.Up: "#1a7f37", service.Late: "#9a5b00", service.Down: "#cf222e", service.Paused: "#59636e", service.Unknown: "#59636e",
}

const badgeText = 40 // characters of a label that are drawn

// badgeSVG draws a badge. The widths of its texts are approximately right in any font, and are set, so that they fit.
func badgeSVG(label string, is service.Condition) string {
	label = strings.Map(func(c rune) rune {
		switch {
		case unicode.Is(unicode.Bidi_Control, c): // would reverse the adjacent text
			return -1
		case c < ' ' || c == utf8.RuneError || c == 0xfffe || c == 0xffff: // are nowhere in XML
			return ' '
		}
		return c
	}, label)
	if cs := []rune(label); len(cs) > badgeText {
		label = string(cs[:badgeText-1]) + "…"
	}
	left, right := 7*utf8.RuneCountInString(label)+12, 7*len(is)+12
	label = html.EscapeString(label)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="20" role="img" aria-label="%s: %s"><title>%s: %s</title>`+
		`<rect width="%d" height="20" rx="3" fill="#3d444d"/><path fill="%s" d="M%d 0h%da3 3 0 0 1 3 3v14a3 3 0 0 1-3 3H%dz"/>`+
		`<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11"><text x="6" y="14" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text>`+
		`<text x="%d" y="14" textLength="%d" lengthAdjust="spacingAndGlyphs">%s</text></g></svg>`,
		left+right, label, is, label, is, left+right, badgeColours[is], left, right-3, left, left-12, label, left+6, right-12, is)
}

// badgeToken matches the token of a badge anywhere in a path.
var badgeToken = regexp.MustCompile(`(?i)cbg_[a-z0-9]+`)

// pathOf returns the path of a request for the log: without the token of a badge.
func pathOf(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, "/badges/") {
		return "/badges/…"
	}
	return badgeToken.ReplaceAllString(r.URL.Path, "cbg_…")
}
