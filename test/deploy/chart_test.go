// Package deploy_test reads the files of deployment with the libraries of those who run them: Helm lints and renders the
// chart and checks values against its schema, what it renders is decoded into the types of Kubernetes and of the operators
// without a field that they do not know, Compose loads its files, BuildKit parses and lints the Dockerfile. It is a
// module of its own, so that the product depends on none of this: make test-deploy.
package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const folder = "../../deploy/helm/carillon"

// least are the values that have no default.
const least = "image: {repository: registry.example/carillon, tag: v1.2.3}\nexistingSecret: carillon\n"

// sets are values that people have, and what each is for.
var sets = map[string]string{
	"the least": "",
	"everything": `
config: {auth: {jwt: {issuer: "https://id.example/", audience: carillon, jwks_url: "https://id.example/keys"}}, trusted_proxies: [10.0.0.0/8], workers: {drain_timeout_seconds: 600}, commands: {allow: true, max_memory_mb: 16777216}, blobs: {url: "s3://carillon/prod?region=eu-central-1"}}
tls: {existingSecret: carillon-tls, caSecret: carillon-ca}
imagePullSecrets: [{name: pull}]
server: {podLabels: {team: a}, podAnnotations: {note: "yes"}, nodeSelector: {disk: fast}, tolerations: [{operator: Exists}], priorityClassName: high, extraEnv: [{name: A, value: b}], extraVolumes: [{name: x, emptyDir: {}}], extraVolumeMounts: [{name: x, mountPath: /x}], affinity: {nodeAffinity: {}}, service: {type: LoadBalancer, port: 443, annotations: {a: b}}}
worker: {queues: [mail, images], labels: [gpu], capacity: 200, autoscaling: {kind: hpa, hpa: {metric: mine, matchLabels: {release: a}}}}
ingress: {enabled: true, className: nginx, hosts: [carillon.example, "*.carillon.example"], tlsSecret: web, annotations: {a: b}}
networkPolicy: {enabled: true, databaseTo: [{ipBlock: {cidr: 10.1.0.0/16}}]}
serviceAccount: {annotations: {role: x}}
metrics: {serviceMonitor: {enabled: true, labels: {release: prometheus}}, prometheusRule: {enabled: true}, grafanaDashboard: {enabled: true}}`,
	"keda by prometheus":      `{worker: {autoscaling: {kind: keda, minReplicas: 0, keda: {fallbackReplicas: 4, prometheus: {authenticationRef: prom}}}}}`,
	"keda by the api":         `{worker: {autoscaling: {kind: keda, keda: {source: api}}}, tls: {existingSecret: t, caSecret: c}}`,
	"keda for some queues":    `{worker: {queues: [gpu, mail], autoscaling: {kind: keda, keda: {source: api}}}, secrets: {workerKey: {existingSecret: w}}}`,
	"hpa":                     `{worker: {autoscaling: {kind: hpa, minReplicas: 1, maxReplicas: 1}}}`,
	"workers for servers far": `{server: {enabled: false}, worker: {servers: ["https://a.example", "https://b.example:8443"]}}`,
	"two servers":             `{server: {replicas: 2}}`,
	"no workers":              `{worker: {enabled: false}, server: {roles: [api, scheduler, worker]}, networkPolicy: {enabled: true}}`,
	"servers migrate":         `{migration: {enabled: false}}`,
	"no metrics":              `{metrics: {enabled: false}, networkPolicy: {enabled: true}}`,
	"small alerts":            `{metrics: {prometheusRule: {enabled: true, profile: small}}}`,
	"a secret each":           `{existingSecret: "", secrets: {database: {existingSecret: pg-app, key: uri}, workerKey: {existingSecret: w}, bootstrapKey: {existingSecret: b}, secretsKey: {existingSecret: s}, jwtSecret: {existingSecret: j}, tracingHeaders: {existingSecret: t}}}`,
	"two database roles":      `{migration: {appRole: carillon_app}, secrets: {databaseOwner: {existingSecret: pg-owner, key: uri}}}`,
	"a digest":                `{image: {digest: "sha256:` + strings.Repeat("a", 64) + `"}}`,
	"one server":              `{server: {replicas: 1, strategy: {maxUnavailable: 0, maxSurge: "100%"}, podDisruptionBudget: {enabled: false}, preStopSeconds: 0}}`,
	"names":                   `{nameOverride: bells, fullnameOverride: ` + strings.Repeat("long-", 20) + `x}`,
}

func values(t *testing.T, text string) map[string]any {
	t.Helper()
	base, more := map[string]any{}, map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(least), &base); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(text), &more); err != nil {
		t.Fatal(err)
	}
	return merge(base, more)
}

func merge(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	for k, v := range b {
		inner, ok := v.(map[string]any)
		if old, was := out[k].(map[string]any); ok && was {
			v = merge(old, inner)
		}
		out[k] = v
	}
	return out
}

func load(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// render returns what helm template would print, by file.
func render(c *chart.Chart, given map[string]any, kube string) (map[string]string, error) {
	caps := chartutil.DefaultCapabilities.Copy()
	v, err := chartutil.ParseKubeVersion(kube)
	if err != nil {
		return nil, err
	}
	caps.KubeVersion = *v
	all, err := chartutil.ToRenderValues(c, given, chartutil.ReleaseOptions{Name: "bells", Namespace: "jobs", IsInstall: true, Revision: 1}, caps)
	if err != nil {
		return nil, err
	}
	return engine.Engine{Strict: true}.Render(c, all)
}

func TestLint(t *testing.T) {
	for name, text := range sets {
		result := lint.AllWithKubeVersion(folder, values(t, text), "jobs", &chartutil.KubeVersion{Version: "v1.33.0", Major: "1", Minor: "33"})
		for _, m := range result.Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

func TestWhatIsRendered(t *testing.T) {
	c := load(t)
	for _, kube := range []string{"v1.27.0", "v1.33.0"} {
		for name, text := range sets {
			t.Run(kube+"/"+name, func(t *testing.T) {
				out, err := render(c, values(t, text), kube)
				if err != nil {
					t.Fatal(err)
				}
				all := decode(t, out)
				if len(all.names) == 0 {
					t.Fatal("nothing was rendered")
				}
				all.check(t)
			})
		}
	}
}

func TestMistakesAreTold(t *testing.T) {
	c := load(t)
	for text, want := range map[string]string{
		`{image: {repository: ""}}`:                                    "image.repository: want where your image is",
		`{existingSecret: ""}`:                                         "existingSecret: want the name of a Secret",
		`{existingSecret: "Not A Name"}`:                               "existingSecret",
		`{databaseUrl: "postgres://x"}`:                                "databaseUrl",
		`{server: {replica: 2}}`:                                       "replica",
		`{server: {replicas: 0}}`:                                      "/server/replicas",
		`{server: {replicas: "three"}}`:                                "/server/replicas",
		`{server: {roles: [cook]}}`:                                    "/server/roles/0",
		`{server: {strategy: {maxUnavailable: "two"}}}`:                "/server/strategy/maxUnavailable",
		`{worker: {capacity: 0}}`:                                      "/worker/capacity",
		`{worker: {servers: ["carillon.example/path"]}}`:               "/worker/servers/0",
		`{worker: {autoscaling: {kind: vpa}}}`:                         "/worker/autoscaling/kind",
		`{worker: {autoscaling: {minReplicas: 30}}}`:                   "minReplicas = 30: want at most maxReplicas, which is 20",
		`{worker: {autoscaling: {kind: hpa, minReplicas: 0}}}`:         "want 1 or more with hpa",
		`{worker: {autoscaling: {kind: keda, keda: {source: kafka}}}}`: "/worker/autoscaling/keda/source",
		`{server: {replicas: 1, strategy: {maxSurge: 0}}}`:             "server.strategy.maxSurge = 0: want 1 or more",
		`{worker: {queues: [gpu], autoscaling: {kind: hpa}}}`:          "Prometheus knows no queues",
		`{worker: {queues: [gpu], autoscaling: {kind: keda}}}`:         "want keda.source api, or keda.prometheus.query",
		`{server: {enabled: false}, worker: {servers: ["https://a.example"], autoscaling: {kind: keda}}}`: "worker.autoscaling.keda.prometheus.query: want the query of the servers' release",
		`{server: {enabled: false}}`:                                                      "worker.servers: want the addresses of servers",
		`{server: {enabled: false}, worker: {enabled: false}}`:                            "want at least one of them true",
		`{ingress: {enabled: true}}`:                                                      "ingress.hosts: want at least one name",
		`{ingress: {enabled: true, hosts: ["https://x.example"]}}`:                        "/ingress/hosts/0",
		`{metrics: {enabled: false, serviceMonitor: {enabled: true}}}`:                    "want metrics.enabled, too",
		`{config: {workers: {drain_timeout_secs: 3}}}`:                                    "drain_timeout_secs",
		`{config: {workers: {drain_timeout_seconds: "1m"}}}`:                              "drain_timeout_seconds",
		`{config: {workers: {lease_timeout_seconds: 1}}}`:                                 "lease_timeout_seconds",
		`{config: {log: {level: loud}}}`:                                                  "/config/log/level",
		`{config: {database: "postgres://u:p@h/d"}}`:                                      "database",
		`{config: {listen: ":1"}}`:                                                        "listen",
		`{image: {digest: "sha256:short"}}`:                                               "/image/digest",
		`{networkPolicy: {egressExcept: [metadata]}}`:                                     "/networkPolicy/egressExcept/0",
		`{secrets: {database: {existingSecret: a, key: "with space"}}}`:                   "/secrets/database/key",
		`{existingSecret: "", secrets: {database: {existingSecret: a}}}`:                  "secrets.workerKey.existingSecret",
		`{existingSecret: "", worker: {enabled: false}, secrets: {database: {key: uri}}}`: `holds "uri"`,
	} {
		_, err := render(c, values(t, text), "v1.33.0")
		if err == nil {
			t.Errorf("taken: %s", text)
			continue
		}
		say := err.Error()
		// Helm's own words for a place have changed over its versions: /a/b and a.b are the same.
		if !strings.Contains(say, want) && !strings.Contains(say, strings.ReplaceAll(strings.TrimPrefix(want, "/"), "/", ".")) {
			t.Errorf("%s: it does not say %q:\n%s", text, want, say)
		}
	}
}

func TestNothingSecretIsRendered(t *testing.T) {
	out, err := render(load(t), values(t, sets["everything"]), "v1.33.0")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range out {
		if strings.Contains(text, "kind: Secret\n") {
			t.Errorf("%s makes a Secret", name)
		}
	}
}

// The settings file that the chart writes is one that Carillon takes.
func TestSettingsOfTheChartAreTaken(t *testing.T) {
	binary := carillon(t)
	for name, text := range sets {
		out, err := render(load(t), values(t, text), "v1.33.0")
		if err != nil {
			t.Fatal(err)
		}
		all := decode(t, out)
		for file, command := range map[string]string{"carillon.toml": "serve", "worker.toml": "worker"} {
			path := filepath.Join(t.TempDir(), file)
			if err := os.WriteFile(path, []byte(all.config.Data[file]), 0o600); err != nil {
				t.Fatal(err)
			}
			if said, err := binary("config", "check", "--config", path, "--for", command); err != nil {
				t.Errorf("%s: %s: %s\n%s", name, file, said, all.config.Data[file])
			}
		}
	}
}

func TestStopsAreLongerThanDrains(t *testing.T) {
	for drain, want := range map[int]int64{30: 80, 600: 650} {
		out, err := render(load(t), values(t, fmt.Sprintf("{config: {workers: {drain_timeout_seconds: %d}}}", drain)), "v1.33.0")
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range decode(t, out).deployments {
			if got := *d.Spec.Template.Spec.TerminationGracePeriodSeconds; got != want {
				t.Errorf("%s: a drain of %d s, and a grace of %d", d.Name, drain, got)
			}
		}
	}
}

func TestTheSmallProfileHasMoreAlerts(t *testing.T) {
	groups := func(text string) int {
		out, err := render(load(t), values(t, text), "v1.33.0")
		if err != nil {
			t.Fatal(err)
		}
		return len(decode(t, out).rules[0].Spec.Groups)
	}
	if standard, small := groups(sets["everything"]), groups(sets["small alerts"]); standard < 1 || small <= standard {
		t.Errorf("%d groups, and in the small profile %d", standard, small)
	}
}

func TestScalingLeavesTheNumberOfReplicasAlone(t *testing.T) {
	for name, kind := range map[string]string{"hpa": "HorizontalPodAutoscaler", "keda by prometheus": "ScaledObject", "keda by the api": "ScaledObject"} {
		out, err := render(load(t), values(t, sets[name]), "v1.33.0")
		if err != nil {
			t.Fatal(err)
		}
		all := decode(t, out)
		if !slices.Contains(all.names, kind+" bells-carillon-worker") {
			t.Errorf("%s: there is %q", name, all.names)
		}
		for _, d := range all.deployments {
			if d.Name == "bells-carillon-worker" && d.Spec.Replicas != nil {
				t.Errorf("%s: an upgrade would set the number of workers back to %d", name, *d.Spec.Replicas)
			}
		}
	}
}

// By default there are 3 to 20 workers, one for each 10 that wait, more after 30 s and fewer after 300 s.
func TestDefaultsOfScaling(t *testing.T) {
	const byDefault = `{worker: {autoscaling: {kind: hpa}}}`
	h := of(t, byDefault).scalers[0].Spec
	if *h.MinReplicas != 3 || h.MaxReplicas != 20 || *h.Behavior.ScaleUp.StabilizationWindowSeconds != 30 || *h.Behavior.ScaleDown.StabilizationWindowSeconds != 300 {
		t.Errorf("hpa: %+v", h)
	}
	want := map[string]string{"pending": "10", "running": "40"}
	for _, m := range h.Metrics {
		if state := m.External.Metric.Selector.MatchLabels["state"]; m.External.Target.AverageValue.String() != want[state] {
			t.Errorf("hpa: %s of %q for each worker", m.External.Target.AverageValue, state)
		}
	}
	for source, each := range map[string]string{"prometheus": "threshold", "api": "targetValue"} {
		k := of(t, `{worker: {autoscaling: {kind: keda, keda: {source: `+source+`}}}, secrets: {workerKey: {existingSecret: w}}}`).scaled[0].Spec
		b := k.Advanced.HPA.Behavior
		if len(h.Metrics) != 2 || len(k.Triggers) != 2 || *b.ScaleUp.StabilizationWindowSeconds != 30 || *b.ScaleDown.StabilizationWindowSeconds != 300 {
			t.Fatalf("keda by %s: %+v", source, k)
		}
		for _, x := range k.Triggers {
			n := "10"
			if strings.Contains(x.Metadata["query"]+x.Metadata["valueLocation"], "running") {
				n = "40"
			}
			if x.Metadata[each] != n {
				t.Errorf("keda by %s: %+v", source, x.Metadata)
			}
		}
	}
	if n := len(of(t, `{worker: {autoscaling: {kind: keda, keda: {prometheus: {query: mine}}}}}`).scaled[0].Spec.Triggers); n != 1 {
		t.Errorf("a query of one's own: %d triggers", n)
	}
	for _, d := range of(t, "{}").deployments {
		if d.Name == "bells-carillon-worker" && *d.Spec.Replicas != 3 {
			t.Errorf("%d workers without scaling", *d.Spec.Replicas)
		}
	}
}

// of renders the chart with values.
func of(t *testing.T, text string) rendered {
	t.Helper()
	out, err := render(load(t), values(t, text), "v1.33.0")
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, out)
}

func TestAServerStaysWhileTheOthersChange(t *testing.T) {
	for text, want := range map[string]string{
		"": "2", "{server: {replicas: 2}}": "1", "{server: {replicas: 1}}": "0", "{server: {replicas: 9}}": "2",
		`{server: {replicas: 4, strategy: {maxUnavailable: "50%"}}}`: "2", `{server: {replicas: 4, strategy: {maxUnavailable: "100%"}}}`: "3",
	} {
		for _, d := range of(t, text).deployments {
			if got := d.Spec.Strategy.RollingUpdate.MaxUnavailable.String(); d.Name == "bells-carillon-server" && got != want {
				t.Errorf("%s: %s servers may be away, want %s", text, got, want)
			}
		}
	}
}

func TestAServerThatMigratesIsGivenTimeToStart(t *testing.T) {
	for text, want := range map[string]int32{"": 60, "{migration: {enabled: false}}": 900, "{migration: {enabled: false, activeDeadlineSeconds: 7199}}": 3600} {
		for _, d := range of(t, text).deployments {
			p := d.Spec.Template.Spec.Containers[0].StartupProbe
			if d.Name == "bells-carillon-server" && p.FailureThreshold != want || d.Name != "bells-carillon-server" && p.FailureThreshold != 60 || p.PeriodSeconds != 2 {
				t.Errorf("%s: %s is tried %d times, every %d s", text, d.Name, p.FailureThreshold, p.PeriodSeconds)
			}
		}
	}
}

// With an application role the migration runs as the owner, which no server may do; without one, both have one URL.
func TestServersAreNotTheOwnerOfTables(t *testing.T) {
	owner, app := [2]string{"pg-owner", "uri"}, [2]string{"carillon", "database"}
	for name, want := range map[string]struct {
		migration [2]string // the Secret of the database's URL, and its key
		role      string
	}{
		"two database roles": {owner, "carillon_app"},
		"the least":          {app, ""},
	} {
		all := of(t, sets[name])
		if len(all.jobs) != 1 {
			t.Fatalf("%s: %d jobs", name, len(all.jobs))
		}
		check := func(what string, spec corev1.PodSpec, url [2]string, role string) {
			t.Helper()
			for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
				var gotURL [2]string
				var gotRole string
				for _, e := range c.Env {
					if e.Name == "CARILLON_STORE_APP_ROLE" {
						gotRole = e.Value
					}
					if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
						r := e.ValueFrom.SecretKeyRef
						if e.Name == "CARILLON_DATABASE" {
							gotURL = [2]string{r.Name, r.Key}
						} else if r.Name == owner[0] {
							t.Errorf("%s: %s knows the owner as %s", name, what, e.Name)
						}
					}
				}
				if gotURL != url || gotRole != role {
					t.Errorf("%s: %s has the URL of %q and the role %q; want %q and %q", name, what, gotURL, gotRole, url, role)
				}
			}
		}
		check("the migration", all.jobs[0].Spec.Template.Spec, want.migration, want.role)
		for _, d := range all.deployments {
			url := app
			if d.Name == "bells-carillon-worker" {
				url = [2]string{}
			}
			check(d.Name, d.Spec.Template.Spec, url, "")
		}
	}
}

// The metrics have no certificate, also where the API has one, and a release is an installation of its own.
func TestReleasesAreScrapedApart(t *testing.T) {
	all := of(t, sets["everything"])
	if len(all.monitors) != 1 {
		t.Fatalf("%d monitors", len(all.monitors))
	}
	m := all.monitors[0]
	if e := m.Spec.Endpoints[0]; e.Port != "metrics" || e.Scheme != nil && *e.Scheme != "http" {
		t.Errorf("scraped at %s by %v", e.Port, e.Scheme)
	}
	for _, s := range all.services {
		if s.Name == "bells-carillon-metrics" && s.Labels[m.Spec.JobLabel] != "bells" {
			t.Errorf("the job is %q, by %s", s.Labels[m.Spec.JobLabel], m.Spec.JobLabel)
		}
	}
	for _, r := range all.rules {
		for _, g := range r.Spec.Groups {
			for _, rule := range g.Rules {
				if e := rule.Expr.String(); strings.Contains(e, "by (job") {
					t.Errorf("%s does not tell two namespaces apart: %s", rule.Alert, e)
				}
			}
		}
	}
	if q := of(t, sets["keda by prometheus"]).scaled[0].Spec.Triggers[0].Metadata["query"]; q != `max(sum by (instance) (carillon_queue_depth{namespace="jobs",job="bells",state="pending"}))` {
		t.Errorf("KEDA asks %s", q)
	}
	if l := of(t, sets["hpa"]).scalers[0].Spec.Metrics[0].External.Metric.Selector.MatchLabels; l["namespace"] != "jobs" || l["job"] != "bells" {
		t.Errorf("the HPA asks for %v", l)
	}
}

// KEDA has no more rights than workers, and asks for the queues that they serve.
func TestWhatKEDAAsksTheServers(t *testing.T) {
	all := of(t, sets["keda for some queues"])
	for _, x := range all.scaled[0].Spec.Triggers {
		if x.Metadata["url"] != "http://bells-carillon.jobs.svc:8080/api/v1/admin/scaling?queue=gpu,mail" {
			t.Errorf("it asks %s", x.Metadata["url"])
		}
	}
	if s := all.logins[0].Spec.SecretTargetRef; len(s) != 1 || s[0].Name != "w" || s[0].Key != "worker-key" {
		t.Errorf("with %+v", s)
	}
	s := of(t, sets["keda by the api"]).logins[0].Spec.SecretTargetRef
	if len(s) != 2 || s[1].Parameter != "ca" || s[1].Name != "c" || s[1].Key != "ca.crt" {
		t.Errorf("with a certificate of ours it has %+v", s)
	}
}

func TestMetadataIsOutOfReach(t *testing.T) {
	for _, p := range of(t, sets["everything"]).policies {
		for _, e := range p.Spec.Egress {
			for _, to := range e.To {
				if b := to.IPBlock; b != nil && (b.CIDR == "0.0.0.0/0" && !slices.Equal(b.Except, []string{"169.254.0.0/16"}) || b.CIDR == "::/0" && !slices.Equal(b.Except, []string{"fd00:ec2::254/128"})) {
					t.Errorf("%s: %s but for %q", p.Name, b.CIDR, b.Except)
				}
			}
		}
	}
}
