package workflow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/expression"
	"github.com/carillon-jobs/carillon/internal/jsonschema"
)

// Tolerance is how many items of a map may fail.
type Tolerance struct {
	Count   int
	Percent float64 // of the width, rounded down, if Share is set
	Share   bool
}

// Of returns how many of n items may fail.
func (t Tolerance) Of(width int) int {
	if !t.Share {
		return t.Count
	}
	return int(math.Floor(float64(width)*t.Percent/100 + 1e-9)) // 1e-9: 0.07 × 100 is a little less than 7
}

// WantTolerance describes valid input of ParseTolerance.
const WantTolerance = `a count such as 3, or a share such as "1%"`

// ParseTolerance parses the tolerate field of a node.
func ParseTolerance(text json.RawMessage) (t Tolerance, ok bool) {
	if len(text) == 0 || string(text) == "null" {
		return t, true
	}
	var n int
	if json.Unmarshal(text, &n) == nil {
		return Tolerance{Count: n}, n >= 0
	}
	var s string
	if json.Unmarshal(text, &s) != nil {
		return t, false
	}
	if share, ok := strings.CutSuffix(s, "%"); ok {
		f, err := strconv.ParseFloat(share, 64)
		return Tolerance{Percent: f, Share: true}, err == nil && f >= 0 && f <= 100
	}
	n, err := strconv.Atoi(s)
	return Tolerance{Count: n}, err == nil && n >= 0
}

// details checks and compiles everything of a node besides its edges.
func (c *compiler) details() {
	for i := range c.g.nodes {
		if len(c.bad) >= maxInvalids {
			return
		}
		d, n, field := &c.def.Nodes[i], &c.g.nodes[i], fmt.Sprintf("nodes[%d].", i)
		at := place{node: int32(i), field: field + "if", cond: true}
		if d.If != "" {
			n.cond = c.expression(at, d.If)
		}
		c.what(d, field)
		c.timeouts(n, d, field)
		c.mapping(n, d, place{node: int32(i), field: field + "map"})
		c.waiting(n, d, place{node: int32(i), field: field + "wait"})
		c.execution(n, d, place{node: int32(i), field: field + "execution", item: n.mapped})
	}
	if c.def.Output != "" {
		c.g.output = c.expression(place{field: "output", node: -1}, c.def.Output)
	}
	for i := range c.g.nodes {
		slices.Sort(c.g.nodes[i].reads)
	}
}

func given(m json.RawMessage) bool { return len(m) > 0 && string(m) != "null" }

// what checks that a node has exactly one action.
func (c *compiler) what(d *Node, field string) {
	var has []string
	if given(d.Execution) {
		has = append(has, "execution")
	}
	if d.JobID != "" {
		has = append(has, "job_id")
	}
	if d.Wait != nil {
		has = append(has, "wait")
	}
	if len(has) != 1 {
		value := "none of them"
		if len(has) > 1 {
			value = strings.Join(has, " and ")
		}
		c.refuse(strings.TrimSuffix(field, "."), value, "exactly one of execution, job_id and wait")
	}
	if given(d.PayloadOverride) && d.JobID == "" {
		c.refuse(field+"payload_override", string(d.PayloadOverride), "job_id beside it; an inline node has execution.payload")
	}
	if given(d.RetryPolicy) && !given(d.Execution) {
		c.refuse(field+"retry_policy", string(d.RetryPolicy), "execution beside it; an existing job has its own, and a wait is never tried again")
	}
}

func (c *compiler) timeouts(n *node, d *Node, field string) {
	n.timeout = c.duration(field+"timeout", d.Timeout)
	if n.timeout == 0 && n.finally {
		n.timeout = FinallyTimeout
	}
	switch n.onTimeout = d.OnTimeout; {
	case d.OnTimeout == "":
		n.onTimeout = TimeoutFails
	case d.Wait == nil:
		c.refuse(field+"on_timeout", d.OnTimeout, "wait beside it; any other node that takes too long is TIMED_OUT")
	case d.Timeout == "":
		c.refuse(field+"on_timeout", d.OnTimeout, "timeout beside it")
	case d.OnTimeout != TimeoutFails && d.OnTimeout != TimeoutSkips && d.OnTimeout != TimeoutSucceeds:
		c.refuse(field+"on_timeout", d.OnTimeout, "one of fail, skip, succeed")
	}
}

func (c *compiler) mapping(n *node, d *Node, at place) {
	field := strings.TrimSuffix(at.field, "map")
	if !given(d.Map) {
		if d.MaxParallel != 0 {
			c.refuse(field+"max_parallel", d.MaxParallel, "map beside it")
		}
		if given(d.Tolerate) {
			c.refuse(field+"tolerate", string(d.Tolerate), "map beside it")
		}
		return
	}
	n.mapped, n.parallel = true, d.MaxParallel
	if d.Wait != nil {
		c.refuse(at.field, string(d.Map), "no map on a wait; map a sub-workflow that waits")
	}
	if d.MaxParallel < 0 || d.MaxParallel > c.g.limits.MapWidth {
		c.refuse(field+"max_parallel", d.MaxParallel, fmt.Sprintf("a whole number from 1 to %d, or none", c.g.limits.MapWidth))
	}
	var ok bool
	if n.tolerate, ok = ParseTolerance(d.Tolerate); !ok {
		c.refuse(field+"tolerate", string(d.Tolerate), WantTolerance)
	}
	v, err := expression.Decode(d.Map)
	if err != nil {
		c.refuse(at.field, string(d.Map), "an expression that gives a list, a list, or a number")
		return
	}
	switch v := v.(type) {
	case string:
		n.mapExpr = c.expression(at, v)
	case []any:
		n.mapList = v
		if len(v) > c.g.limits.MapWidth {
			c.refuse(at.field, fmt.Sprintf("%d items", len(v)), fmt.Sprintf("at most %d", c.g.limits.MapWidth))
		}
	case int:
		n.mapCount = v
		if v < 0 || v > c.g.limits.MapWidth {
			c.refuse(at.field, v, fmt.Sprintf("a number of items from 0 to %d", c.g.limits.MapWidth))
		}
	default:
		c.refuse(at.field, string(d.Map), "an expression that gives a list, a list, or a whole number")
	}
}

func (c *compiler) waiting(n *node, d *Node, at place) {
	w := d.Wait
	if w == nil {
		return
	}
	n.wait = w
	var has []string
	if w.Timer != "" {
		has = append(has, "timer")
		c.timer(n, w.Timer, at.field+".timer")
		if d.Timeout != "" {
			c.refuse(strings.TrimSuffix(at.field, "wait")+"timeout", d.Timeout, "no timeout beside a timer, which ends by itself")
		}
	}
	if w.Approval != nil {
		has = append(has, "approval")
		c.approval(n, w.Approval, at.field+".approval")
	}
	if w.Event != "" {
		has = append(has, "event")
		if !ValidEvent(w.Event) {
			c.refuse(at.field+".event", w.Event, WantEvent)
		}
	}
	if len(has) != 1 {
		c.refuse(at.field, strings.Join(has, " and "), "exactly one of timer, approval and event")
	}
	if !given(w.Match) {
		return
	}
	if w.Event == "" {
		c.refuse(at.field+".match", string(w.Match), "event beside it")
		return
	}
	v, err := expression.Decode(w.Match)
	if text, ok := v.(string); ok {
		at.field += ".match"
		n.match = c.expression(at, text)
	} else if err != nil {
		c.refuse(at.field+".match", string(w.Match), "an expression such as run.input.order, or a value that is no string")
	}
	n.matchTo = v
}

func (c *compiler) timer(n *node, text, field string) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 && d <= maxTimeout {
		n.timer = d
		return
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		c.refuse(field, text, "a duration up to 8784h such as 2h, or an instant such as 2030-01-02T15:04:05Z")
	}
	n.timerAt = at
}

func (c *compiler) approval(n *node, a *Approval, field string) {
	for i, r := range a.Roles {
		if role := tenant.Role(r); role != tenant.Viewer && role != tenant.Operator && role != tenant.Admin {
			c.refuse(fmt.Sprintf("%s.roles[%d]", field, i), r, "one of viewer, operator, admin")
		}
	}
	if a.Min < 0 || a.Min > maxApprovals {
		c.refuse(field+".min", a.Min, fmt.Sprintf("a whole number from 1 to %d", maxApprovals))
	}
	if !given(a.Schema) {
		return
	}
	s, err := jsonschema.Compile(a.Schema)
	if err != nil {
		c.refuse(field+".schema", string(a.Schema), "a JSON Schema: "+err.Error())
	}
	n.approval = s
}

// rendered lists the members of an execution that are templates.
var rendered = []string{"payload", "headers", "callback_url", "command"}

// execution compiles the templates of an inline node, or those for an existing job.
func (c *compiler) execution(n *node, d *Node, at place) {
	if given(d.PayloadOverride) {
		at.field = strings.TrimSuffix(at.field, "execution") + "payload_override"
		n.payload = c.template(at, "", d.PayloadOverride)
	}
	if !given(d.Execution) {
		return
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(d.Execution, &members); err != nil {
		c.refuse(at.field, string(d.Execution), "an object, as a job's execution is")
		return
	}
	n.hasInput = !given(members["payload"])
	field := at.field
	for _, name := range rendered {
		if text, ok := members[name]; ok && bytes.Contains(text, []byte("{{")) {
			at.field = field + "." + name
			if t := c.template(at, name, text); t != nil {
				n.templates = append(n.templates, t)
			}
		}
	}
}
