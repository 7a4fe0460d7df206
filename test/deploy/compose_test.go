package deploy_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

var secrets = []string{"POSTGRES_PASSWORD=p", "CARILLON_BOOTSTRAP_KEY=b", "CARILLON_WORKER_KEY=w", "CARILLON_SECRETS_KEY=s"}

func project(t *testing.T, file string, env ...string) (*types.Project, error) {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{filepath.Join("..", "..", "deploy", "compose", file)}, cli.WithEnv(env), cli.WithProfiles([]string{"*"}))
	if err != nil {
		t.Fatal(err)
	}
	return o.LoadProject(t.Context())
}

func TestOneNode(t *testing.T) {
	p, err := project(t, "one-node.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := p.Services["carillon"]
	if s.Ports[0].HostIP != "127.0.0.1" || s.Ports[0].Target != 8080 || s.Ports[0].Published != "8080" {
		t.Errorf("published: %+v", s.Ports)
	}
	if got := *s.Environment["CARILLON_DATABASE"]; got != "sqlite:/var/lib/carillon/carillon.db" || s.Volumes[0].Target != "/var/lib/carillon" {
		t.Errorf("%s, with %+v", got, s.Volumes)
	}
}

func TestCluster(t *testing.T) {
	p, err := project(t, "cluster.yaml", secrets...)
	if err != nil {
		t.Fatal(err)
	}
	names := p.ServiceNames()
	slices.Sort(names)
	if want := []string{"cli", "migrate", "postgres", "server1", "server2", "server3", "worker"}; !slices.Equal(names, want) {
		t.Errorf("got %q", names)
	}
	for name, s := range p.Services {
		if name != "postgres" && name != "migrate" && name != "cli" && (s.HealthCheck == nil || s.HealthCheck.Disable) {
			t.Errorf("%s is not looked after", name)
		}
		if strings.HasPrefix(name, "server") {
			if *s.Environment["CARILLON_DATABASE"] != "postgres://carillon:p@postgres:5432/carillon?sslmode=disable" || *s.Environment["CARILLON_STORE_MIGRATE"] != "false" || s.DependsOn["migrate"].Condition != types.ServiceConditionCompletedSuccessfully {
				t.Errorf("%s: %v, after %v", name, s.Environment.Resolve(nil), s.DependsOn)
			}
			if s.Ports[0].HostIP != "127.0.0.1" {
				t.Errorf("%s is published to everyone", name)
			}
		}
	}
	w := p.Services["worker"]
	if len(w.Ports) > 0 || w.ContainerName != "" {
		t.Error("a second worker would not start")
	}
	if *w.Environment["CARILLON_TOKEN"] != *p.Services["server1"].Environment["CARILLON_BOOTSTRAP_WORKER_KEY"] {
		t.Error("workers have another key than the servers know")
	}
}

func TestServersOfAClusterAreNotTheOwnerOfTables(t *testing.T) {
	const owner, app = "postgres://carillon:p@postgres:5432/carillon?sslmode=disable", "postgres://carillon_app:a@postgres:5432/carillon?sslmode=disable"
	role := []string{"POSTGRES_APP_ROLE=carillon_app", "POSTGRES_APP_PASSWORD=a"}
	elsewhere := []string{"CARILLON_DATABASE=postgres://carillon_app:a@db/x", "POSTGRES_OWNER_URL=postgres://owner:o@db/x"}
	for name, c := range map[string]struct {
		env              []string
		migrate, servers string
		role             string
	}{
		"two roles":            {role, owner, app, "carillon_app"},
		"a database elsewhere": {slices.Concat(role, elsewhere), "postgres://owner:o@db/x", "postgres://carillon_app:a@db/x", "carillon_app"},
		"one role":             {nil, owner, owner, ""},
	} {
		p, err := project(t, "cluster.yaml", slices.Concat(secrets, c.env)...)
		if err != nil {
			t.Fatal(err)
		}
		of := func(service, variable string) string {
			if v := p.Services[service].Environment[variable]; v != nil {
				return *v
			}
			return ""
		}
		for service := range p.Services {
			url, role := "", ""
			switch {
			case service == "migrate":
				url, role = c.migrate, c.role
			case strings.HasPrefix(service, "server"):
				url = c.servers
			}
			if got, as := of(service, "CARILLON_DATABASE"), of(service, "CARILLON_STORE_APP_ROLE"); got != url || as != role {
				t.Errorf("%s: %s has the URL %q and the role %q; want %q and %q", name, service, got, as, url, role)
			}
		}
		if got := of("postgres", "POSTGRES_APP_ROLE"); got != c.role {
			t.Errorf("%s: the database makes the role %q", name, got)
		}
	}
}

func TestAClusterWithoutSecretsSaysWhatToDo(t *testing.T) {
	for i := range secrets {
		_, err := project(t, "cluster.yaml", slices.Delete(slices.Clone(secrets), i, i+1)...)
		if err == nil || !strings.Contains(err.Error(), "run deploy/compose/setup first") {
			t.Errorf("without %s: %v", secrets[i], err)
		}
	}
}

func TestTheDockerfileHasNoWarnings(t *testing.T) {
	data, err := os.ReadFile("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	tree, err := parser.Parse(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range tree.Warnings {
		t.Error(w.Short)
	}
	lint := linter.New(&linter.Config{Warn: func(rule, _, _, short string, _ []parser.Range) { t.Errorf("%s: %s", rule, short) }})
	stages, _, err := instructions.Parse(tree.AST, lint)
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 3 {
		t.Fatalf("it has %d stages", len(stages))
	}
	names := []string{}
	for _, s := range stages {
		for _, c := range s.Commands {
			if copy, ok := c.(*instructions.CopyCommand); ok && copy.From != "" && !slices.Contains(names, copy.From) {
				t.Errorf("COPY --from=%s: there is no such stage before", copy.From)
			}
		}
		names = append(names, s.Name)
	}
}
