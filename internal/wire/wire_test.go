package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/wire"
)

func TestRendered(t *testing.T) {
	target, payload, err := wire.Rendered([]byte(`{"target": "http", "callback_url": "https://example.com/x", "payload": {"n": 1}}`))
	if err != nil || target.Kind != job.HTTP || target.Method != "POST" || target.Timeout != job.DefaultTimeout || string(payload) != `{"n": 1}` {
		t.Errorf("%+v, %s, %v", target, payload, err)
	}
	if _, payload, err := wire.Rendered([]byte(`{"target": "worker", "kind": "load", "payload": null}`)); err != nil || payload != nil {
		t.Errorf("no payload: %s, %v", payload, err)
	}
	for doc, field := range map[string]string{
		`{"callback_url": "ftp://x"}`:                   "execution.callback_url",
		`{"callback_url": 5}`:                           "execution.callback_url",
		`{"target": "worker", "kind": "a b"}`:           "execution.kind",
		`{"target": "command", "command": "rm"}`:        "execution.command",
		`{"target": "workflow"}`:                        "execution.target",
		`{"callback_url": "https://a/", "nonsense": 1}`: "execution.nonsense",
		`[]`: "execution",
		`{`:  "execution",
	} {
		_, _, err := wire.Rendered([]byte(doc))
		var v job.Invalids
		if !errors.As(err, &v) || v[0].Field != field || v[0].Want == "" {
			t.Errorf("%s: %v; want a problem with %s", doc, err, field)
		}
	}
}

func TestSample(t *testing.T) {
	for url, want := range map[string]struct {
		url     string
		guessed bool
	}{
		"https://example.com/a":                        {"https://example.com/a", false},
		"{{ run.input.url }}":                          {"https://example.com/", true},
		"{{ run.input.base }}/hook":                    {"https://example.com/", true},
		"https://{{ run.input.host }}/x":               {"https://1/x", true},
		"https://example.com:{{ run.input.port }}":     {"https://example.com:1", true},
		"https://example.com/{{ item }}?a={{ index }}": {"https://example.com/1?a=1", false},
	} {
		got, guessed := wire.Sample(client.Target{CallbackURL: url})
		if got.CallbackURL != want.url || guessed != want.guessed {
			t.Errorf("%s: %s, guessed %v; want %+v", url, got.CallbackURL, guessed, want)
		}
	}
	e := client.Target{Headers: map[string]string{"X-A": "v-{{ item }}"}, Command: []string{"run", "{{ item }}"}}
	got, _ := wire.Sample(e)
	if got.Headers["X-A"] != "v-1" || strings.Join(got.Command, " ") != "run 1" || e.Command[1] != "{{ item }}" {
		t.Errorf("%+v of %+v", got, e)
	}
}
