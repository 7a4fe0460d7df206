package api

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/dashboard"
)

// pageRoutes returns the screens of the dashboard and their assets. They need no credential, because they contain no
// data: they request it through the other routes.
func (s viewAPI) pageRoutes() []route {
	rs := []route{
		{method: "GET", path: "/assets/{name...}", needs: tenant.Open, summary: "What the pages load", handle: s.asset},
		{method: "GET", path: "/x/{id}", needs: tenant.Open, summary: "A short link to an execution or a job", handle: s.short},
	}
	for _, screen := range dashboard.Screens {
		rs = append(rs, route{method: "GET", path: screen.Path, needs: tenant.Open, summary: "A screen of the dashboard", handle: s.screen(screen)})
	}
	return rs
}

// screen responds with the page of a screen or, if JSON is requested, with the API's data for the screen.
func (s viewAPI) screen(at dashboard.Screen) func(http.ResponseWriter, *http.Request, tenant.Principal) error {
	return func(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
		if !wantsJSON(r) {
			dashboard.Built().Page(w, r, http.StatusOK)
			return nil
		}
		address, id := at.API, r.PathValue("id")
		if at.Parts != nil {
			part, one, _ := strings.Cut(r.PathValue("part"), "/")
			if address, id = at.Parts[part], one; one != "" {
				address += "/{id}"
			}
		}
		i := slices.IndexFunc(s.routes, func(rt route) bool { return rt.method == "GET" && rt.path == address })
		if i < 0 {
			return refuse(406, "not_acceptable", "This page has no data; /docs lists what the API offers.")
		}
		w.Header().Set("Vary", "Accept")
		if list, by, one := strings.Cut(at.One, " "); one {
			return s.member(w, r, at.API, list, by)
		}
		s.instead(w, r, strings.ReplaceAll(address, "{id}", url.PathEscape(id)), readFilter(r.URL.Query(), s.routes[i].params, s.service.Now()))
		return nil
	}
}

// member responds with the list element that has the id in the path.
func (s viewAPI) member(w http.ResponseWriter, r *http.Request, address, list, by string) error {
	for q := (url.Values{}); ; {
		page := &kept{header: w.Header().Clone(), status: 200}
		s.instead(page, r, address, q)
		if page.status != 200 {
			return page.send(w)
		}
		all := objectOf(page.Bytes())
		var rows []json.RawMessage
		if err := json.Unmarshal(all[list], &rows); err != nil {
			return err
		}
		for _, row := range rows {
			if textOf(objectOf(row)[by]) == r.PathValue("id") {
				return reply(w, 200, row)
			}
		}
		next := textOf(objectOf(all["pagination"])["next_cursor"])
		if next == "" {
			return nowhere
		}
		q = url.Values{"cursor": {next}, "limit": {"1000"}}
	}
}

// instead handles a request as if another address had been requested, with all of its checks.
func (s viewAPI) instead(w http.ResponseWriter, r *http.Request, address string, q url.Values) {
	u, err := url.Parse(address)
	if err != nil {
		s.fail(w, r, nowhere)
		return
	}
	other := r.Clone(r.Context())
	u.RawQuery = q.Encode()
	other.URL, other.RequestURI = u, u.RequestURI()
	s.mux.ServeHTTP(w, other)
}

// short responds with the object that has the id, an execution or a job; the page looks it up itself.
func (s viewAPI) short(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	if !wantsJSON(r) {
		dashboard.Built().Page(w, r, http.StatusOK)
		return nil
	}
	id := url.PathEscape(r.PathValue("id"))
	first := &kept{header: w.Header().Clone(), status: 200}
	s.instead(first, r, "/api/v1/executions/"+id, nil)
	if first.status == 404 {
		s.instead(w, r, "/api/v1/jobs/"+id, nil)
		return nil
	}
	return first.send(w)
}

// kept is a response that is inspected before it is sent.
type kept struct {
	bytes.Buffer
	header http.Header
	status int
}

func (k *kept) Header() http.Header    { return k.header }
func (k *kept) WriteHeader(status int) { k.status = status }

func (k *kept) send(w http.ResponseWriter) error {
	for name, v := range k.header {
		w.Header()[name] = v
	}
	w.WriteHeader(k.status)
	w.Write(k.Bytes())
	return nil
}

func (s viewAPI) asset(w http.ResponseWriter, r *http.Request, _ tenant.Principal) error {
	if !dashboard.Built().Asset(w, r, r.PathValue("name")) {
		return nowhere
	}
	return nil
}

// wantsJSON reports whether a program asks, rather than a browser that navigates.
func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "json") && !strings.Contains(accept, "text/html")
}

// navigates reports whether a browser navigates to an address.
func navigates(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path, "/api/") && !strings.HasPrefix(r.URL.Path, "/assets/")
}

// filterWord is a word of the filter language: key:value, or text; either may be quoted.
var filterWord = regexp.MustCompile(`(?i)(?:([a-z_]+):)?("(?:[^"\\]|\\.)*"?|\S+)`)

var bareKey = regexp.MustCompile(`(?i)^[a-z_]+:$`)

var unquote = regexp.MustCompile(`\\(.)`)

// filterKeys maps words of filters to the API's names, if they differ.
var filterKeys = map[string]string{
	"type": "schedule_type", "job": "job_id", "worker": "worker_id", "from": "start_date", "to": "end_date", "who": "principal", "key": "key_id",
}

var before = regexp.MustCompile(`^-(\d{1,6})(s|m|min|h|d|w)$`)

var spans = map[string]time.Duration{"s": time.Second, "m": time.Minute, "min": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "w": 7 * 24 * time.Hour}

// readFilter turns the parameters of a screen into those of the API: q is in the filter language, and parameters that
// the API does not have, such as the selected tab, are dropped.
func readFilter(from url.Values, params []param, now time.Time) url.Values {
	known := func(name string) bool {
		return slices.ContainsFunc(params, func(p param) bool { return p.name == name })
	}
	q := url.Values{}
	for name := range from {
		if known(name) {
			q.Set(name, from.Get(name))
		}
	}
	chooses := known("q")
	for _, name := range filterKeys {
		chooses = chooses || known(name)
	}
	if !chooses {
		return q
	}
	q.Del("q")
	var text []string
	for _, m := range filterWord.FindAllStringSubmatch(from.Get("q"), -1) {
		key, value := strings.ToLower(m[1]), m[2]
		if strings.HasPrefix(value, `"`) {
			value = unquote.ReplaceAllString(strings.TrimSuffix(value[1:], `"`), "$1")
		}
		name := key
		if other, ok := filterKeys[key]; ok && known(other) {
			name = other
		}
		switch {
		case key == "" && bareKey.MatchString(value): // whose value is still to come
		case key == "":
			text = append(text, value)
		case known(name):
			name, value = meant(name, value, known, now)
			q.Set(name, value)
		default:
			text = append(text, m[0])
		}
	}
	if len(text) > 0 {
		q.Set("q", strings.Join(text, " "))
	}
	return q
}

// meant returns a word of a filter in the API's form: a job may be given by its name, and a time relative to now.
func meant(name, value string, known func(string) bool, now time.Time) (string, string) {
	switch name {
	case "job_id":
		if _, err := job.ParseID(value); err != nil && !strings.HasPrefix(value, "key:") && known("job_name") {
			return "job_name", value
		}
	case "start_date", "end_date", "from", "to":
		if m := before.FindStringSubmatch(value); m != nil {
			if n, _ := strconv.Atoi(m[1]); time.Duration(n) < math.MaxInt64/spans[m[2]] {
				return name, now.Add(-time.Duration(n) * spans[m[2]]).Format(time.RFC3339)
			}
		}
	}
	return name, value
}
