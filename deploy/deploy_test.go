// Package deploy_test reads the files of deployment as text, in seconds: every variable and command in them
// exists, nothing has a default credential, stops wait for what runs, the chart's schema has every setting. What takes
// the makers' own libraries (Helm, Kubernetes, Compose, BuildKit) is in test/deploy, and runs with make test-deploy.
package deploy_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/carillon-jobs/carillon/internal/config"
)

var update = flag.Bool("update", false, "write the settings into the chart's schema, and the alerts into the chart")

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// files are all files below a folder.
func files(t *testing.T, root string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// others are variables that are no settings of a file.
var others = []string{
	"CARILLON_CONFIG", "CARILLON_SERVER", "CARILLON_TOKEN", "CARILLON_TOKEN_FILE", "CARILLON_CAPACITY", "CARILLON_QUEUES", "CARILLON_LABELS",
	"CARILLON_METRICS_LISTEN", "CARILLON_TRACING_HEADERS",
}

// ours are variables of the compose files themselves.
var ours = []string{"CARILLON_IMAGE", "CARILLON_VERSION", "CARILLON_PUBLISH", "CARILLON_PUBLISH_1", "CARILLON_PUBLISH_2", "CARILLON_PUBLISH_3", "CARILLON_WORKER_KEY"}

func TestVariablesExist(t *testing.T) {
	known := slices.Clone(others)
	for _, k := range config.Keys {
		known = append(known, k.Variable(), k.FileVariable())
	}
	word := regexp.MustCompile(`CARILLON_[A-Z0-9_]*[A-Z0-9]`)
	for _, path := range append(files(t, "."), "../Dockerfile") {
		if strings.HasSuffix(path, ".go") || strings.HasPrefix(path, "prometheus") || strings.HasPrefix(path, "grafana") {
			continue
		}
		for _, name := range word.FindAllString(read(t, path), -1) {
			if !slices.Contains(known, name) && !(strings.HasPrefix(path, "compose") && slices.Contains(ours, name)) {
				t.Errorf("%s: %s is no variable of Carillon", path, name)
			}
		}
	}
}

const chart = "helm/carillon"

// chosen are settings that the chart makes itself.
var chosen = []string{"listen", "data", "roles", "tls.cert", "tls.key", "tls.client_ca", "tls.ca", "store.migrate", "secrets.key_file", "commands.folder", "metrics.listen"}

func TestTheChartsSchemaHasEverySetting(t *testing.T) {
	path := filepath.Join(chart, "values.schema.json")
	var schema map[string]any
	if err := json.Unmarshal([]byte(read(t, path)), &schema); err != nil {
		t.Fatal(err)
	}
	properties := schema["properties"].(map[string]any)
	tree := table("Settings of servers and workers: docs/reference/config.md")
	for _, k := range config.Keys {
		if k.Secret || slices.Contains(chosen, k.Name) {
			continue
		}
		at, parts := tree, strings.Split(k.Name, ".")
		for _, name := range parts[:len(parts)-1] {
			below := at["properties"].(map[string]any)
			if below[name] == nil {
				below[name] = table("")
			}
			at = below[name].(map[string]any)
		}
		at["properties"].(map[string]any)[parts[len(parts)-1]] = describe(k)
	}
	properties["config"] = tree
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(schema); err != nil {
		t.Fatal(err)
	}
	keep(t, path, want.String())
}

// keep compares a file with what it should be, or makes it so.
func keep(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("deploy/%s is not current: run 'make chart' (%v)", path, err)
	}
}

func table(about string) map[string]any {
	out := map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
	if about != "" {
		out["description"] = about
	}
	return out
}

var (
	bounds  = regexp.MustCompile(`^a whole number from (\d+) to (\d+)`)
	choices = regexp.MustCompile(`^one of ([A-Za-z, ]+)$`)
)

// describe is a setting as a schema has it.
func describe(k config.Key) map[string]any {
	out := map[string]any{"description": k.Doc + ": " + k.Want}
	whole := map[string]any{"type": "integer"}
	if m := bounds.FindStringSubmatch(k.Want); m != nil {
		least, _ := strconv.Atoi(m[1])
		most, _ := strconv.Atoi(m[2])
		whole["minimum"], whole["maximum"] = least, most
		if strings.Contains(k.Want, ", or -1: ") {
			whole["minimum"], whole["not"] = -1, map[string]any{"const": 0}
		}
	}
	switch k.Kind {
	case config.Number:
		for name, v := range whole {
			out[name] = v
		}
		if whole["minimum"] == nil {
			out["type"] = "number"
		}
	case config.Span:
		if k.Name == "workers.drain_timeout_seconds" { // the chart reckons with it
			for name, v := range whole {
				out[name] = v
			}
			break
		}
		out["oneOf"] = []any{whole, map[string]any{"type": "string", "pattern": `^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`}}
	case config.Truth:
		out["type"] = "boolean"
	case config.List:
		out["type"], out["items"] = "array", map[string]any{"type": "string", "minLength": 1}
	default:
		out["type"] = "string"
		if m := choices.FindStringSubmatch(k.Want); m != nil {
			out["enum"] = strings.Split(m[1], ", ")
		}
	}
	return out
}

func TestTheChartHasTheAlertsAndTheDashboard(t *testing.T) {
	for from, to := range map[string]string{
		"prometheus/alerts.yaml": "alerts.yaml", "prometheus/alerts-small.yaml": "alerts-small.yaml", "grafana/carillon.json": "carillon.json",
	} {
		want, err := os.ReadFile(from)
		if os.IsNotExist(err) {
			t.Logf("there is no deploy/%s", from)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		keep(t, filepath.Join(chart, "files", to), string(want))
	}
}

// drained returns how long a stop may take: the drain, and what comes after it.
func drained() time.Duration { return config.Default().Workers.Drain + 30*time.Second }

func TestComposeFiles(t *testing.T) {
	secret := regexp.MustCompile(`(?i)(password|key|token|secret)(_file)?$`)
	for _, path := range []string{"compose/one-node.yaml", "compose/cluster.yaml"} {
		var file struct {
			Services map[string]struct {
				Image       string
				Environment map[string]string
				Ports       []string
				Grace       string `yaml:"stop_grace_period"`
				Health      any    `yaml:"healthcheck"`
				Privileged  bool
				ReadOnly    bool     `yaml:"read_only"`
				CapDrop     []string `yaml:"cap_drop"`
				Restart     string
			}
		}
		// To this decoder a key beside the merged one is a duplicate.
		if err := yaml.UnmarshalWithOptions([]byte(read(t, path)), &file, yaml.AllowDuplicateMapKey()); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for name, s := range file.Services {
			for key, value := range s.Environment {
				if secret.MatchString(key) && !strings.HasPrefix(value, "${") {
					t.Errorf("%s: %s: %s is a credential that everyone knows", path, name, key)
				}
			}
			for _, p := range s.Ports {
				if !strings.Contains(p, ":-127.0.0.1:") {
					t.Errorf("%s: %s: %s is published to everyone", path, name, p)
				}
			}
			if s.Health == nil || s.Privileged || s.Restart == "" {
				t.Errorf("%s: %s has no health check or no restart policy, or is privileged", path, name)
			}
			if name == "postgres" {
				continue
			}
			if grace, err := time.ParseDuration(s.Grace); err != nil || grace < drained() {
				t.Errorf("%s: %s: a stop is given %q, and may take %v", path, name, s.Grace, drained())
			}
			if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
				t.Errorf("%s: %s may write its image, or has capabilities", path, name)
			}
		}
	}
}

func TestSetupMakesSecretsOnce(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash here")
	}
	path := filepath.Join(t.TempDir(), ".env")
	run := func() string {
		if out, err := exec.Command("bash", "compose/setup", path).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return read(t, path)
	}
	first := run()
	if run() != first {
		t.Error("a second run changes the secrets")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read it: %v, %v", info.Mode(), err)
	}
	set := map[string]string{}
	for line := range strings.Lines(first) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			set[name] = value
		}
	}
	want := regexp.MustCompile(`\$\{([A-Z_0-9]+):\?`)
	for _, m := range want.FindAllStringSubmatch(read(t, "compose/cluster.yaml"), -1) {
		if len(set[m[1]]) < 32 {
			t.Errorf("%s is %d characters long", m[1], len(set[m[1]]))
		}
	}
	if _, err := config.Load(config.Default(), nil, []string{
		"CARILLON_BOOTSTRAP_KEY=" + set["CARILLON_BOOTSTRAP_KEY"], "CARILLON_BOOTSTRAP_WORKER_KEY=" + set["CARILLON_WORKER_KEY"], "CARILLON_SECRETS_KEY=" + set["CARILLON_SECRETS_KEY"],
		fmt.Sprintf("CARILLON_DATABASE=postgres://carillon:%s@postgres/carillon", set["POSTGRES_PASSWORD"]),
	}, ""); err != nil {
		t.Error(err)
	}
}

func TestDockerfile(t *testing.T) {
	text := strings.ReplaceAll(read(t, "../Dockerfile"), "\\\n", " ")
	stages := regexp.MustCompile(`(?m)^FROM (?:--platform=\S+ )?(\S+)`).FindAllStringSubmatch(text, -1)
	if len(stages) != 3 {
		t.Fatalf("it has %d stages", len(stages))
	}
	for _, m := range stages {
		if !strings.Contains(m[1], ":") || strings.HasSuffix(m[1], ":latest") {
			t.Errorf("%s: which version?", m[1])
		}
	}
	last := text[strings.LastIndex(text, "\nFROM "):]
	for _, want := range []string{"static-debian12:nonroot", "USER 65532:65532", `HEALTHCHECK `, `"health"]`, "STOPSIGNAL SIGTERM", `ENTRYPOINT ["/usr/local/bin/carillon"]`, "org.opencontainers.image.version"} {
		if !strings.Contains(last, want) {
			t.Errorf("the image has no %s", want)
		}
	}
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "npm ci --ignore-scripts", "go mod verify"} {
		if !strings.Contains(text, want) {
			t.Errorf("the build has no %s", want)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^COPY .*--chown=\S+ .*$`).FindAllString(last, -1) {
		if !strings.HasSuffix(m, " /data/ /") {
			t.Errorf("%s: the user of the image may change it", m)
		}
	}
	if !strings.Contains(last, "COPY --from=build /out/ /\n") || !strings.Contains(text, "-o /out/usr/local/bin/carillon ") || strings.Contains(text, "/data/usr") {
		t.Error("the program is not root's in the image")
	}
	if regexp.MustCompile(`(?m)^ADD |curl |wget |apt-get|sudo`).MatchString(text) {
		t.Error("it fetches what no sum is known of")
	}
	ignored := read(t, "../.dockerignore")
	if !strings.Contains(ignored, "\n*\n") {
		t.Error(".dockerignore lets everything in")
	}
	for _, m := range regexp.MustCompile(`(?m)^COPY (?:(--from=\S+) )?.*$`).FindAllStringSubmatch(text, -1) {
		if m[1] != "" {
			continue
		}
		words := strings.Fields(m[0])
		for _, path := range words[1 : len(words)-1] {
			top := strings.Split(strings.TrimSuffix(path, "/"), "/")[0]
			if top != "." && !strings.Contains(ignored, "\n!"+top+"\n") {
				t.Errorf("%s is copied, and .dockerignore leaves it out", path)
			}
		}
	}
}

// The dashboard shows how much of each worker is used.
func TestUtilisationOfEachWorkerIsAPanel(t *testing.T) {
	type panel struct {
		Title   string
		Panels  []panel
		Targets []struct{ Expr string }
	}
	var board panel
	data, err := os.ReadFile("grafana/carillon.json")
	if err == nil {
		err = json.Unmarshal(data, &board)
	}
	if err != nil {
		t.Fatal(err)
	}
	var exprs []string
	var look func([]panel)
	look = func(ps []panel) {
		for _, p := range ps {
			if look(p.Panels); p.Title == "Utilisation of each worker" {
				for _, x := range p.Targets {
					exprs = append(exprs, x.Expr)
				}
			}
		}
	}
	look(board.Panels)
	if len(exprs) != 1 || strings.Count(exprs[0], "sum by (instance) (carillon_process_slots{") != 2 || !strings.Contains(exprs[0], `state="busy"`) {
		t.Errorf("it shows %q, want busy slots of each process as a share of its slots", exprs)
	}
}

// Once it is told how to (worker.autoscaling.kind), the chart scales as SPEC R12 asks: 3 to 20 workers, one for 10 that wait, more after 30 s, fewer after 300 s.
func TestTheChartsDefaultsOfScaling(t *testing.T) {
	var values struct {
		Worker struct {
			Autoscaling struct {
				Min     int `yaml:"minReplicas"`
				Max     int `yaml:"maxReplicas"`
				Waiting int `yaml:"targetPerReplica"`
				Up      int `yaml:"scaleUpStabilizationSeconds"`
				Down    int `yaml:"scaleDownStabilizationSeconds"`
				Keda    struct {
					Cooldown int `yaml:"cooldownPeriod"`
				} `yaml:"keda"`
			} `yaml:"autoscaling"`
		} `yaml:"worker"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "helm/carillon/values.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	a := values.Worker.Autoscaling
	if got, want := []int{a.Min, a.Max, a.Waiting, a.Up, a.Down, a.Keda.Cooldown}, []int{3, 20, 10, 30, 300, 300}; !slices.Equal(got, want) {
		t.Errorf("minimum, maximum, waiting for each, seconds up and down, and those of KEDA down to none: %v, want %v", got, want)
	}
}
