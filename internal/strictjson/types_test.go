package strictjson

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// job is like the body of a request that creates a job.
type job struct {
	Name      string            `json:"name"`
	Enabled   bool              `json:"enabled"`
	Labels    map[string]string `json:"labels,omitempty"`
	Schedule  schedule          `json:"schedule"`
	Execution *execution        `json:"execution"`
	Retry     *retry            `json:"retry"`
	Payload   json.RawMessage   `json:"payload"`
	Tags      []string          `json:"tags"`
	NotBefore time.Time         `json:"not_before"`
	Priority  int8              `json:"priority"`
	Weight    float64           `json:"weight"`
	Extra     any               `json:"extra"`
}

type schedule struct {
	Type string `json:"type"`
	Cron string `json:"cron"`
	Zone string `json:"zone"`
}

type execution struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
	Timeout int               `json:"timeout_seconds"`
}

type retry struct {
	Attempts uint16  `json:"attempts"`
	Factor   float64 `json:"factor"`
}

const jobBody = `{
  "name": "nightly-report",
  "enabled": true,
  "labels": {"team": "billing", "env": "prod"},
  "schedule": {"type": "cron", "cron": "15 3 * * 1-5", "zone": "Europe/Berlin"},
  "execution": {"url": "https://reports.example.com/run", "method": "POST",
    "headers": {"Content-Type": "application/json", "X-Trace": "on"}, "timeout_seconds": 30},
  "retry": {"attempts": 5, "factor": 1.5},
  "payload": {"report": "daily", "recipients": ["a@example.com", "b@example.com"], "limit": 10000000000000000001},
  "tags": ["nightly", "billing"],
  "not_before": "2026-01-02T15:04:05Z",
  "priority": -3,
  "weight": 0.25
}`

// color takes three words and says so with Want.
type color string

type colorError struct{}

func (colorError) Error() string { return "bad color" }
func (colorError) Want() string  { return "one of: red, green, blue" }

func (c *color) UnmarshalText(text []byte) error {
	switch *c = color(text); *c {
	case "red", "green", "blue":
		return nil
	}
	return fmt.Errorf("color: %w", colorError{})
}

// even takes texts of even length and has a plain error.
type even struct{ s string }

func (e *even) UnmarshalText(text []byte) error {
	if len(text)%2 != 0 {
		return errors.New("odd length")
	}
	e.s = string(text)
	return nil
}

type onlyJSON struct{}

func (*onlyJSON) UnmarshalJSON([]byte) error { return nil }

type base struct {
	ID   string `json:"id"`
	Name string
}

type More struct {
	Note string `json:"note"`
}

type withEmbedded struct {
	base
	*More
	Name   int
	hidden int    //lint:ignore U1000 the decoder must pass it over
	Secret string `json:"-"`
	//lint:ignore SA5008 a field named "-" is what this spells in encoding/json
	Dash string `json:"-,"`
}

// Left and Right, embedded side by side, cancel out the field they both have.
type Left struct {
	Same int
	Tag  int `json:"tagged"`
}

type Right struct {
	Same   int
	Tagged int
	*Right
}

type tree struct {
	Leaf  int     `json:"leaf"`
	Kids  []tree  `json:"kids"`
	Other *tree   `json:"other"`
	Named treeMap `json:"named"`
}

type treeName string

type treeMap map[treeName]tree

type patch struct {
	Name  Opt[string]   `json:"name"`
	Tags  Opt[[]string] `json:"tags"`
	Retry Opt[*retry]   `json:"retry"`
	Color Opt[color]    `json:"color"`
}

// wide has more fields than one machine word has bits.
type wide struct {
	A00, A01, A02, A03, A04, A05, A06, A07, A08, A09 int
	A10, A11, A12, A13, A14, A15, A16, A17, A18, A19 int
	A20, A21, A22, A23, A24, A25, A26, A27, A28, A29 int
	A30, A31, A32, A33, A34, A35, A36, A37, A38, A39 int
	A40, A41, A42, A43, A44, A45, A46, A47, A48, A49 int
	A50, A51, A52, A53, A54, A55, A56, A57, A58, A59 int
	A60, A61, A62, A63, A64, A65, A66, A67, A68, A69 int
}

func nested(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

func jobList(n int) []byte {
	return []byte("[" + strings.Repeat(jobBody+",\n", n-1) + jobBody + "]")
}
