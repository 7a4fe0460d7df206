package internal_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/carillon-jobs/carillon/"

// rule says what a package may import of this module, and of others.
type rule struct {
	ours   []string
	others []string
	why    string
}

const (
	uuids = "github.com/google/uuid"
	core  = "internal/core/..."
)

// table says who imports whom. Arrows point one way; a package that is not here may not exist.
var table = map[string]rule{
	"internal/core/tenant":   {why: "core is pure: the standard library only"},
	"internal/core/job":      {ours: []string{"internal/core/tenant"}, why: "core is pure: the standard library only"},
	"internal/core/pick":     {ours: []string{"internal/core/tenant", "internal/core/job"}, why: "core is pure: the standard library only"},
	"internal/core/explain":  {ours: []string{"internal/core/tenant", "internal/core/job", "internal/core/workflow"}, why: "core is pure: the standard library only"},
	"internal/core/notice":   {ours: []string{"internal/core/tenant", "internal/core/job"}, why: "core is pure: the standard library only"},
	"internal/core/egress":   {why: "core is pure: the standard library only"},
	"internal/core/audit":    {ours: []string{"internal/core/tenant"}, why: "core is pure: the standard library only"},
	"internal/core/schedule": {ours: []string{"internal/core/job"}, why: "core is pure: the standard library only"},

	"internal/core/workflow": {
		ours: []string{"internal/core/tenant", "internal/core/job", "internal/expression", "internal/jsonschema", "internal/strictjson"},
		why:  "core is pure: beside core and the standard library only leaves that are pure themselves, for definitions, expressions and schemas",
	},

	"internal/core/layout": {ours: []string{"internal/core/workflow"}, why: "core is pure: it draws definitions, and knows no store and no run"},

	"internal/clock":      {why: "a leaf"},
	"internal/failpoint":  {why: "a leaf: every part may be made to fail"},
	"internal/loop":       {why: "a leaf"},
	"internal/peer":       {why: "a leaf: it asks the kernel whose connection it is"},
	"internal/seal":       {why: "a leaf: it knows bytes and keys"},
	"internal/strictjson": {why: "a leaf: it decodes anything"},
	"internal/watchdog":   {why: "a leaf: for tests only"},

	"internal/engine":                       {ours: []string{core}, why: "ports speak core and know no engine"},
	"internal/engine/enginetest":            {ours: []string{core, "internal/engine", "internal/watchdog"}, others: []string{uuids, "github.com/google/go-cmp", "pgregory.net/rapid"}, why: "the suite knows the port, never an engine"},
	"internal/engine/gen":                   {why: "it reads the source of the ports, and runs by go generate only"},
	"internal/engine/sqlstore":              {ours: []string{core, "internal/engine", "internal/failpoint"}, why: "settings in any SQL database; the engines bring the drivers"},
	"internal/engine/sqlstore/behind":       {ours: []string{core, "internal/engine", "internal/engine/sqlstore"}, why: "for tests only: a database without the lock of a run"},
	"internal/engine/postgres":              {ours: []string{core, "internal/engine", "internal/engine/sqlstore", "internal/clock", "internal/failpoint"}, others: []string{"github.com/jackc/pgx/v5", "github.com/jackc/puddle/v2"}, why: "a driver is imported in its engine's folder only"},
	"internal/engine/postgres/postgrestest": {others: []string{"github.com/jackc/pgx/v5"}, why: "for tests only"},
	"internal/engine/sqlite":                {ours: []string{core, "internal/engine", "internal/engine/sqlstore", "internal/engine/sqlite/walfile", "internal/clock", "internal/failpoint"}, others: []string{"zombiezen.com/go/sqlite", "modernc.org/sqlite", "golang.org/x/sys"}, why: "a driver is imported in its engine's folder only"},

	"internal/engine/sqlite/walfile": {why: "a leaf: it reads the log of a file that others write"},

	"internal/replica": {ours: []string{"internal/blob", "internal/engine/sqlite", "internal/engine/sqlite/walfile", "internal/loop"}, others: []string{"github.com/klauspost/compress"}, why: "it ships pages of the one engine that has no copies of its own, to any place for objects"},

	"internal/engine/storetest": {ours: []string{"internal/engine", "internal/engine/postgres", "internal/engine/postgres/postgrestest", "internal/engine/sqlite", "internal/watchdog"}, why: "for tests only"},

	"internal/move": {ours: []string{core, "internal/engine"}, why: "it knows rows, and no engine"},

	"internal/yamljson": {others: []string{"github.com/goccy/go-yaml"}, why: "a leaf: it knows YAML and JSON, not what they say"},
	"internal/declare":  {ours: []string{"client", "internal/strictjson", "internal/yamljson"}, why: "it is a client of the API, as the command line is"},
	"internal/importer": {ours: []string{"client", "internal/core/schedule", "internal/declare", "internal/yamljson"}, why: "it reads text and makes declared jobs; it asks nobody"},

	"internal/expression": {others: []string{"github.com/expr-lang/expr"}, why: "a leaf: it knows payloads, not jobs"},
	"internal/jsonschema": {others: []string{"github.com/santhosh-tekuri/jsonschema/v6"}, why: "a leaf: it knows schemas and values, not workflows"},

	"internal/telemetry": {
		ours:   []string{core, "client", "internal/engine", "internal/clock"},
		others: []string{"github.com/prometheus/client_golang", "go.opentelemetry.io/otel"}, why: "it sees what goes through the store, and knows none of the roles",
	},
	"internal/ratelimit": {ours: []string{core, "internal/engine", "internal/clock"}, why: "it counts what others allow"},
	"internal/service":   {ours: []string{core, "internal/engine", "internal/clock", "internal/workflows", "internal/ratelimit", "internal/expression", "internal/failpoint", "internal/seal", "internal/secret", "internal/sign", "internal/artifact"}, others: []string{uuids}, why: "roles meet in the store, not in each other"},
	"internal/workflows": {ours: []string{core, "internal/engine", "internal/clock", "internal/failpoint", "internal/loop", "internal/expression", "internal/wire"}, others: []string{uuids}, why: "it decides about runs for whoever asks, and runs nothing"},
	"internal/scheduler": {ours: []string{core, "internal/engine", "internal/clock", "internal/failpoint"}, others: []string{uuids}, why: "roles meet in the store, not in each other"},
	"internal/dispatch":  {ours: []string{core, "internal/engine", "internal/clock", "internal/failpoint", "internal/loop"}, why: "roles meet in the store, not in each other"},
	"internal/feed":      {ours: []string{core, "internal/engine", "internal/clock"}, others: []string{uuids}, why: "it sees what goes through the store, and knows none of the roles"},
	"internal/ownership": {ours: []string{core, "internal/engine"}, others: []string{uuids}, why: "roles meet in the store, not in each other"},
	"internal/upkeep":    {ours: []string{core, "internal/engine", "internal/clock"}, why: "roles meet in the store, not in each other"},
	"internal/wire":      {ours: []string{core, "client", "internal/strictjson"}, why: "it knows what requests say, and nobody who asks"},
	"internal/access":    {ours: []string{core, "internal/engine", "internal/clock"}, others: []string{"github.com/golang-jwt/jwt/v5"}, why: "it knows keys, not requests"},

	"enqueue":           {ours: []string{core, "client", "internal/api", "internal/engine", "internal/engine/postgres", "internal/service"}, others: []string{"github.com/jackc/pgx/v5"}, why: "public: the service over the caller's own transaction"},
	"client":            {why: "public: what travels, and nothing of how the server works"},
	"client/workflow":   {ours: []string{"client"}, why: "public: a builder over what travels"},
	"worker":            {ours: []string{"client", "internal/failpoint"}, why: "public: a worker runs in other people's processes"},
	"worker/tracing":    {ours: []string{"client", "worker"}, others: []string{"go.opentelemetry.io/otel"}, why: "public: for workers whose programs trace; others do not link it"},
	"internal/executor": {ours: []string{"client", "worker", "internal/core/egress", "internal/failpoint", "internal/command"}, why: "it runs attempts as any worker does"},

	"internal/blob":          {ours: []string{"internal/core/tenant"}, why: "the port: it knows names and content, and no place"},
	"internal/blob/location": {why: "a leaf: it reads a setting, and opens nothing"},
	"internal/blob/folder":   {ours: []string{"internal/blob"}, why: "an engine of the port: files"},
	"internal/blob/database": {ours: []string{"internal/blob", "internal/engine"}, others: []string{uuids}, why: "an engine of the port: the store that is there anyway"},
	"internal/blob/s3":       {ours: []string{"internal/blob", "internal/blob/location"}, others: []string{"github.com/minio/minio-go/v7"}, why: "an engine of the port; a driver is imported in its engine's folder only"},
	"internal/blob/blobtest": {ours: []string{"internal/blob"}, why: "the suite knows the port, never an engine"},

	"internal/archive":       {ours: []string{core, "internal/engine"}, others: []string{"github.com/parquet-go/parquet-go"}, why: "the file format: it reads and writes what it is given"},
	"internal/archive/mover": {ours: []string{core, "internal/archive", "internal/blob", "internal/clock", "internal/engine"}, why: "it knows days and files, and nobody who reads them"},
	"internal/history":       {ours: []string{core, "internal/archive", "internal/blob", "internal/engine"}, why: "it reads from the store and from files, and knows nobody who asks"},

	"internal/artifact":       {ours: []string{core, "internal/blob"}, why: "it knows tenants and objects, not jobs or requests"},
	"internal/command":        {ours: []string{core, "client", "worker", "internal/artifact", "internal/command/minder"}, others: []string{"golang.org/x/sys"}, why: "it runs a program, as a worker asks"},
	"internal/command/minder": {others: []string{"golang.org/x/sys", "github.com/landlock-lsm/go-landlock"}, why: "it takes over before the rest of the binary is made ready, so it needs nothing of it"},

	"internal/allowlist": {ours: []string{core, "client", "internal/engine", "internal/clock"}, why: "it knows tenants and what travels; whoever dials judges"},
	"internal/notify":    {ours: []string{core, "client", "internal/engine", "internal/clock"}, why: "roles meet in the store, not in each other; a notice travels as client has it"},
	"internal/delivery":  {ours: []string{core, "client"}, why: "it knows what travels and what is stored, and nobody who asks for either"},

	"internal/secret":         {ours: []string{core, "client", "internal/clock", "internal/engine", "internal/delivery", "internal/seal"}, why: "what is sealed is opened here and nowhere else"},
	"internal/secret/backend": {ours: []string{core, "internal/secret"}, why: "it reads secrets that others keep, and knows nobody who asks for them"},
	"internal/sign":           {ours: []string{core, "client", "internal/engine", "internal/delivery", "internal/clock", "internal/seal"}, why: "it completes what is handed out, and knows nobody who asks for it"},

	"internal/dashboard": {why: "a leaf: it serves files"},

	"internal/api": {
		ours:   []string{core, "client", "worker", "internal/service", "internal/dispatch", "internal/delivery", "internal/secret", "internal/sign", "internal/access", "internal/feed", "internal/engine", "internal/clock", "internal/strictjson", "internal/artifact", "internal/ratelimit", "internal/telemetry", "internal/dashboard", "internal/wire", "internal/archive/mover", "internal/blob"},
		others: []string{uuids, "github.com/parquet-go/parquet-go"}, why: "it decodes, calls the service, encodes; engine is for its errors and filters",
	},
	"internal/check":  {ours: []string{core}, others: []string{"github.com/anishathalye/porcupine"}, why: "it judges histories by the rules alone, whoever recorded them"},
	"internal/sim":    {ours: []string{"internal/...", "client", "worker"}, others: []string{uuids}, why: "it wires all parts, as app does, with faults between them"},
	"internal/config": {ours: []string{"internal/blob/location"}, others: []string{"github.com/pelletier/go-toml/v2"}, why: "a leaf: settings start nothing"},
	"internal/bench": {
		ours:   []string{core, "client", "worker", "internal/service", "internal/scheduler", "internal/dispatch", "internal/delivery", "internal/ownership", "internal/upkeep", "internal/api", "internal/access", "internal/feed", "internal/engine", "internal/clock", "internal/loop", "internal/executor", "internal/seal", "internal/sign", "internal/workflows", "internal/archive", "internal/archive/mover", "internal/blob", "internal/blob/folder", "internal/history"},
		others: []string{uuids}, why: "it wires the parts as a server does, over a store that it is given",
	},
	"scripts/pack": {why: "a leaf: it packs what others built"},

	"internal/app":         {ours: []string{"internal/...", "client", "worker"}, why: "app wires everything but the command line"},
	"internal/app/apptest": {ours: []string{"internal/app", "internal/config"}, why: "for tests only: a server in their own process"},
	"internal/cli":         {ours: []string{"internal/app", "internal/bench", "internal/config", "internal/core/schedule", "internal/core/workflow", "internal/core/layout", "internal/engine", "internal/move", "internal/blob", "internal/replica", "internal/declare", "internal/importer", "internal/yamljson", "client"}, others: []string{"github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys"}, why: "the command line is a client of the product; cron expressions it reads without one"},
	"cmd/carillon":         {ours: []string{"internal/cli"}, why: "main hands the arguments over, nothing else"},

	"examples/go": {ours: []string{"worker"}, why: "what a user's program imports"},

	"test/bench": {
		ours: []string{"..."}, others: []string{uuids, "github.com/jackc/pgx/v5", "zombiezen.com/go/sqlite"},
		why: "it measures the parts, and beside them the bare drivers",
	},
	"test/harness": {ours: []string{"client", "internal/check", "internal/engine/postgres/postgrestest"}, why: "for tests only: it knows the product by the binary and the API"},
	"test/matrix":  {why: "for tests only: it reads the source"},
	"test/mutants": {why: "for tests only: it reads the source, and runs the go command"},
	"test/house":   {why: "for tests only: it reads the source"},
}

func TestImports(t *testing.T) {
	root := ".."
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "node_modules" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() && file != root {
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil {
				return fs.SkipDir // a module of its own, such as bench
			}
		}
		if d.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		pkg := path.Dir(filepath.ToSlash(rel))
		seen[pkg] = true
		r, ok := table[pkg]
		if !ok {
			t.Errorf("%s is not in the table of imports: add it there, with the reason for what it may import", pkg)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if own, ok := strings.CutPrefix(name, module); ok {
				if own == "internal/cli" && pkg != "cmd/carillon" || !slices.ContainsFunc(r.ours, func(p string) bool { return matches(p, own) }) {
					t.Errorf("%s imports %s, which it may not: %s", rel, own, r.why)
				}
			} else if first, _, _ := strings.Cut(name, "/"); strings.Contains(first, ".") && !slices.ContainsFunc(r.others, func(p string) bool { return name == p || strings.HasPrefix(name, p+"/") }) {
				t.Errorf("%s imports %s, which it may not: %s", rel, name, r.why)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range table {
		if !seen[pkg] {
			t.Errorf("the table of imports has %s, which does not exist", pkg)
		}
	}
}

func matches(pattern, pkg string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "..."); ok {
		return strings.HasPrefix(pkg, prefix)
	}
	return pattern == pkg
}
