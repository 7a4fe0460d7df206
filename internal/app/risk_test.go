package app

import (
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/config"
)

// A process that holds the store and the keys runs no commands unless it is told so in so many words.
func TestAServerRunsNoCommandsUnlessTold(t *testing.T) {
	serve := func(change func(*running)) error {
		r := &running{}
		r.Config = config.Default()
		r.Config.Commands.Allow = true
		change(r)
		return r.risk()
	}
	if err := serve(func(*running) {}); err == nil || !strings.Contains(err.Error(), "--commands-risk-server") {
		t.Errorf("a server: %v; want a refusal that names --commands-risk-server", err)
	}
	for name, change := range map[string]func(*running){
		"a worker elsewhere":  func(r *running) { r.remote = true },
		"dev":                 func(r *running) { r.Dev = true },
		"one that is told":    func(r *running) { r.Config.Commands.RiskServer = true },
		"one that may do all": func(r *running) { r.Config.Commands.Unconfined = true },
	} {
		if err := serve(change); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
