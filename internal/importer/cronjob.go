package importer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/declare"
	"github.com/carillon-jobs/carillon/internal/yamljson"
)

// CronJobs reads manifests of Kubernetes.
type CronJobs struct {
	Tag    string   // that the jobs get; "": none
	Runner []string // the command that runs an image, such as docker run --rm; none: the container's command runs on the worker itself
}

// manifest holds what is read of a manifest.
type manifest struct {
	Kind     string            `json:"kind"`
	Items    []json.RawMessage `json:"items"`
	Metadata struct {
		Name      string            `json:"name"`
		Namespace string            `json:"namespace"`
		Labels    map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Schedule  string  `json:"schedule"`
		TimeZone  *string `json:"timeZone"`
		Policy    string  `json:"concurrencyPolicy"`
		Deadline  *int64  `json:"startingDeadlineSeconds"`
		Suspend   bool    `json:"suspend"`
		Succeeded *int    `json:"successfulJobsHistoryLimit"`
		Failed    *int    `json:"failedJobsHistoryLimit"`
		Template  struct {
			Spec jobSpec `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

type jobSpec struct {
	Backoff     *int            `json:"backoffLimit"`
	Active      *int64          `json:"activeDeadlineSeconds"`
	TTL         *int64          `json:"ttlSecondsAfterFinished"`
	Completions *int            `json:"completions"`
	Parallelism *int            `json:"parallelism"`
	Policy      json.RawMessage `json:"podFailurePolicy"`
	Template    struct {
		Spec podSpec `json:"spec"`
	} `json:"template"`
}

type podSpec struct {
	Containers     []container       `json:"containers"`
	InitContainers []container       `json:"initContainers"`
	Volumes        []json.RawMessage `json:"volumes"`
	RestartPolicy  string            `json:"restartPolicy"`
	NodeSelector   map[string]string `json:"nodeSelector"`
	Affinity       json.RawMessage   `json:"affinity"`
	Tolerations    []json.RawMessage `json:"tolerations"`
	Account        string            `json:"serviceAccountName"`
}

type container struct {
	Name       string            `json:"name"`
	Image      string            `json:"image"`
	Command    []string          `json:"command"`
	Args       []string          `json:"args"`
	WorkingDir string            `json:"workingDir"`
	EnvFrom    []json.RawMessage `json:"envFrom"`
	Resources  json.RawMessage   `json:"resources"`
	Mounts     []json.RawMessage `json:"volumeMounts"`
	Env        []struct {
		Name  string          `json:"name"`
		Value string          `json:"value"`
		From  json.RawMessage `json:"valueFrom"`
	} `json:"env"`
}

// reader reads manifests.
type reader struct {
	maker
	CronJobs
	doc *yamljson.Document
}

// Read reads manifests. Anything but a CronJob is reported and left out.
func (c CronJobs) Read(data []byte) (Imported, error) {
	r := &reader{maker: maker{keys: map[string]bool{}}, CronJobs: c}
	docs, err := yamljson.Parse(data)
	if err != nil {
		return r.out, err
	}
	for i := range docs {
		r.doc = &docs[i]
		r.read(docs[i].JSON, "")
	}
	if len(r.out.Jobs) > 0 {
		r.common()
	}
	return r.out, nil
}

func (r *reader) common() {
	if len(r.Runner) == 0 {
		r.tell(0, "", Differs, "image", "no container is started: the command runs on a worker, which must have the program and allow commands; --image-runner 'docker run --rm' has the worker run the image")
	}
	r.tell(0, "", Note, "history", "history limits are not taken over: history is kept for as long as the installation says")
	r.tell(0, "", Note, "missed", "Kubernetes gives up after 100 missed times; here the latest is caught up with, however many were missed (catch_up latest)")
}

// read makes a job of a manifest, or of each one in a list.
func (r *reader) read(data []byte, path string) {
	var m manifest
	line := r.doc.LineOf(path)
	if err := json.Unmarshal(data, &m); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			r.tell(line, "", LeftOut, "manifest", "%s is a %s, which it is not in a manifest", kind.Field, kind.Value)
			return
		}
		r.tell(line, "", LeftOut, "manifest", "it cannot be read: %v", err)
		return
	}
	if m.Items != nil {
		for i, item := range m.Items {
			r.read(item, fmt.Sprintf("items[%d]", i))
		}
		return
	}
	if m.Kind != "CronJob" {
		r.tell(line, "", LeftOut, "kind", "a %s is not imported, only a CronJob is", orNothing(m.Kind))
		return
	}
	at := func(field string) int {
		if path != "" {
			field = path + "." + field
		}
		return r.doc.LineOf(field)
	}
	r.cronJob(&m, at)
}

func orNothing(s string) string {
	if s == "" {
		return "document without a kind"
	}
	return s
}

func (r *reader) cronJob(m *manifest, at func(field string) int) {
	name := m.Metadata.Name
	if ns := m.Metadata.Namespace; ns != "" && ns != "default" {
		name = ns + "." + name
	}
	key := r.key(name)
	tell := func(field, kind, format string, args ...any) {
		r.tell(at(field), key, kind, field[strings.LastIndex(field, ".")+1:], format, args...)
	}
	spec := &m.Spec
	j := declare.Job{JobRequest: client.JobRequest{Key: &key, Name: name, Description: "From a CronJob of Kubernetes."}}
	var ok bool
	if j.Schedule, ok = r.schedule(m, tell); !ok {
		return
	}
	if j.Execution, ok = r.target(&spec.Template.Spec.Template.Spec, tell); !ok {
		return
	}
	switch spec.Policy {
	case "Forbid":
		j.Overlap = new("skip")
	case "Replace":
		j.Overlap = new("replace")
	case "", "Allow":
	default:
		tell("spec.concurrencyPolicy", LeftOut, "%q is none of Allow, Forbid and Replace; Allow is assumed", spec.Policy)
	}
	if spec.Deadline != nil && *spec.Deadline > 0 {
		j.ExpiresAfter = new((time.Duration(*spec.Deadline) * time.Second).String())
		tell("spec.startingDeadlineSeconds", Differs, "it is expires_after: what waits that long for a free worker expires, too")
	}
	if spec.Suspend {
		j.Paused = new(true)
	}
	if r.Tag != "" {
		j.Tags = []string{r.Tag}
	}
	r.policy(&j, &spec.Template.Spec, tell)
	r.out.Jobs = append(r.out.Jobs, j)
}

type teller = func(field, kind, format string, args ...any)

func (r *reader) schedule(m *manifest, tell teller) (*client.Schedule, bool) {
	expression, zone := strings.TrimSpace(m.Spec.Schedule), ""
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if rest, ok := strings.CutPrefix(expression, prefix); ok {
			zone, expression, _ = strings.Cut(rest, " ")
			expression = strings.TrimSpace(expression)
		}
	}
	switch {
	case m.Spec.TimeZone != nil && *m.Spec.TimeZone != "":
		zone = *m.Spec.TimeZone
	case zone == "":
		tell("spec.schedule", Differs, "without timeZone Kubernetes uses the zone of its controller, most often UTC: UTC is assumed")
	}
	out := &client.Schedule{Type: "CRON", CronExpression: &expression}
	if zone != "" {
		out.Timezone = &zone
	}
	day := schedule.Vixie
	if f := strings.Fields(expression); len(f) == 5 && f[2] != "*" && f[2] != "?" && f[4] != "*" && f[4] != "?" {
		day, out.Day = schedule.Either, new(string(schedule.Either))
		tell("spec.schedule", Note, "it fires on a day that either of the two day fields names, as in Kubernetes (day: or)")
	}
	if _, err := schedule.NewCache(time.LoadLocation).Cron(expression, zone, day); err != nil {
		tell("spec.schedule", LeftOut, "%s is not accepted: %v", shorten(expression, 60), err)
		return nil, false
	}
	return out, true
}

// policy converts the retry policy.
func (r *reader) policy(j *declare.Job, s *jobSpec, tell teller) {
	const spec = "spec.jobTemplate.spec."
	retries := 6
	if s.Backoff != nil {
		retries = *s.Backoff
	}
	if retries > 100 {
		tell(spec+"backoffLimit", Differs, "%d retries are more than there can be; 100 are", retries)
		retries = 100
	}
	j.RetryPolicy = &client.RetryPolicy{MaxRetries: &retries, Backoff: "EXPONENTIAL", InitialDelayMS: new(int64(10_000)), MaxDelayMS: new(int64(360_000))}
	j.Execution.TimeoutSeconds = new(int64(longest))
	if s.Active != nil && *s.Active > 0 {
		limit := min(*s.Active, longest)
		j.Execution.TimeoutSeconds, j.Execution.TotalTimeoutSeconds = &limit, &limit
	} else {
		tell(spec+"activeDeadlineSeconds", Note, "Kubernetes ends nothing by itself; here an attempt is ended after 7 days, the longest there is (timeout_seconds)")
	}
	if n := s.Completions; n != nil && *n > 1 {
		tell(spec+"completions", LeftOut, "%d completions: here a fire is one run", *n)
	}
	if n := s.Parallelism; n != nil && *n > 1 {
		tell(spec+"parallelism", LeftOut, "%d at once: here a fire is one run", *n)
	}
	if len(s.Policy) > 0 {
		tell(spec+"podFailurePolicy", LeftOut, "which failures are tried again cannot be chosen by exit code")
	}
	if s.Template.Spec.RestartPolicy == "OnFailure" {
		tell(spec+"template.spec.restartPolicy", Differs, "a failed container is not restarted in place, but tried again as a new attempt, perhaps elsewhere")
	}
}

// target makes a command of a pod.
func (r *reader) target(p *podSpec, tell teller) (client.Target, bool) {
	const pod = "spec.jobTemplate.spec.template.spec."
	t := client.Target{Target: "command"}
	if len(p.Containers) == 0 {
		tell(pod+"containers", LeftOut, "it has no container, so there is nothing to run")
		return t, false
	}
	c := p.Containers[0]
	first := pod + "containers[0]."
	for _, x := range p.Containers[1:] {
		tell(pod+"containers", LeftOut, "the container %s: only the first is run", x.Name)
	}
	for _, x := range p.InitContainers {
		tell(pod+"initContainers", LeftOut, "the init container %s", x.Name)
	}
	for _, x := range []struct {
		field string
		there bool
		what  string
	}{
		{"volumes", len(p.Volumes) > 0, "volumes have no counterpart"},
		{"nodeSelector", len(p.NodeSelector) > 0, "where it runs is chosen by labels of workers: set labels"},
		{"affinity", len(p.Affinity) > 0, "where it runs is chosen by labels of workers: set labels"},
		{"tolerations", len(p.Tolerations) > 0, "tolerations have no counterpart"},
		{"serviceAccountName", p.Account != "", "a worker has its own identity"},
	} {
		if x.there {
			tell(pod+x.field, LeftOut, "%s", x.what)
		}
	}
	if len(c.Resources) > 0 && string(c.Resources) != "{}" {
		tell(first+"resources", LeftOut, "a worker has one set of limits for all commands (commands.max_…)")
	}
	if c.WorkingDir != "" && len(r.Runner) == 0 {
		tell(first+"workingDir", Differs, "the command has an empty folder of its own, not %s", c.WorkingDir)
	}
	if len(c.EnvFrom) > 0 {
		tell(first+"envFrom", LeftOut, "variables are named one by one in env")
	}
	t.Env = r.environment(&c, first, tell)
	command, args := expandAll(c.Command, t.Env), expandAll(c.Args, t.Env)
	for _, name := range slices.Sorted(maps.Keys(t.Env)) {
		if strings.Contains(t.Env[name], "${secret:") && slices.ContainsFunc(slices.Concat(command, args), func(a string) bool { return strings.Contains(a, "$("+name+")") }) {
			tell(first+"args", LeftOut, "$(%s) in an argument: a secret does not belong where process lists show it; have the program read the variable", name)
		}
	}
	if len(r.Runner) > 0 {
		t.Command = r.image(&c, command, args, t.Env)
		return t, true
	}
	if len(command) == 0 {
		tell(first+"command", LeftOut, "the image %s says itself what it runs, and the file does not: write the command, or import with --image-runner", c.Image)
		return t, false
	}
	t.Command = slices.Concat(command, args)
	return t, true
}

// image returns the command that runs an image.
func (r *reader) image(c *container, command, args []string, env map[string]string) []string {
	out := slices.Clone(r.Runner)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		out = append(out, "-e", name) // its value comes from the environment of the runner
	}
	if c.WorkingDir != "" {
		out = append(out, "-w", c.WorkingDir)
	}
	if len(command) > 0 {
		out = append(out, "--entrypoint", command[0])
		args = slices.Concat(command[1:], args)
	}
	return slices.Concat(append(out, c.Image), args)
}

func (r *reader) environment(c *container, first string, tell teller) map[string]string {
	env := map[string]string{}
	for i, e := range c.Env {
		if len(e.From) == 0 {
			env[e.Name] = expand(e.Value, env)
			continue
		}
		field := fmt.Sprintf("%senv[%d].valueFrom", first, i)
		var from struct {
			Secret *struct{ Name, Key string } `json:"secretKeyRef"`
		}
		if err := json.Unmarshal(e.From, &from); err == nil && from.Secret != nil {
			name := strings.Trim(notKey.ReplaceAllString(strings.ToLower(from.Secret.Name+"."+from.Secret.Key), "-"), "-._")
			env[e.Name] = "${secret:" + name + "}"
			tell(field, Differs, "%s names the secret %s: set it before you apply", e.Name, name)
			continue
		}
		tell(field, LeftOut, "%s comes from elsewhere in Kubernetes (%s)", e.Name, shorten(string(e.From), 80))
	}
	if len(env) == 0 {
		return nil
	}
	return env
}

func expandAll(args []string, env map[string]string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = expand(a, env)
	}
	return out
}

// expand replaces $(NAME) by the known value of NAME, as Kubernetes does; $$(NAME) is $(NAME). Secrets do not belong
// in arguments.
func expand(s string, env map[string]string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		rest := s[i:]
		if strings.HasPrefix(rest, "$$") {
			b.WriteByte('$')
			i += 2
			continue
		}
		if strings.HasPrefix(rest, "$(") {
			if name, _, ok := strings.Cut(rest[2:], ")"); ok {
				if v, known := env[name]; known && !strings.Contains(v, "${secret:") {
					b.WriteString(v)
					i += len(name) + 3
					continue
				}
			}
		}
		b.WriteByte(s[i])
		i++
	}
	return b.String()
}
