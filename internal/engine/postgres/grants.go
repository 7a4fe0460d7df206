package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// allowed describes what a role may do to a table: verbs with the columns they may name.
type allowed struct {
	read, add, change string // "" for nothing, "*" for all columns, or names with spaces between them
	drop              bool
}

const every = "*"

// tenantMay lists, for each table, the privileges that users' requests need. They run as the role carillon_tenant,
// whose policies restrict it to the rows of one tenant. TestTheWallIsVertical fails for a table that is missing here,
// and for a grant beyond it.
//
// Columns that a policy cannot restrict to one tenant are neither read nor written.
var tenantMay = map[string]allowed{
	"alarms":              {read: every, drop: true},
	"api_keys":            {read: every, add: "id tenant role name hash created_at expires_at", change: "name expires_at revoked_at", drop: true}, // so that it can be locked; a policy forbids deletion
	"archive_files":       {},                                                                                                                     // a file may have rows of several tenants; the reads name the tenant
	"archive_shares":      {},
	"archive_turn":        {},
	"attempts":            {read: every},
	"audit":               {read: every, add: "at count tenant by_whom role key_id origin request action object detail"},
	"audit_sealed":        {read: every},
	"audit_seals":         {read: every},
	"badges":              {read: every, add: every, drop: true},
	"blob_chunks":         {read: every, add: every}, // the owner deletes them, see SweepBlobs
	"blobs":               {read: every, add: every, change: "state"},
	"buckets":             {}, // Draw looks into them for explanations
	"bundles":             {read: every, change: "open", drop: true},
	"calendars":           {read: every, add: every, change: "spec updated_at", drop: true},
	"carillon_migrations": {},
	"dead_letters":        {read: every, drop: true},
	"depths":              {read: every},
	"edge_marks":          {read: every, add: every},
	"events":              {read: every, add: every},
	"executions":          {read: every, add: every, change: "tally"}, // so that rows can be locked; a policy forbids changes
	"failures":            {read: every},
	"fingerprints":        {read: every},
	"holds":               {read: every, add: every, drop: true}, // policies leave those of whole tenants to operators
	"idempotency":         {read: every, add: every, change: "expires_at hash answer", drop: true},
	"installation":        {},
	"job_counts":          {read: every, add: every, change: "active counted_at"},
	"job_durations":       {read: every, add: every, change: "n"},
	"job_edges":           {read: every, add: every, change: "token token_at", drop: true},
	"job_months":          {read: every},
	"job_retentions":      {read: every, add: every, change: "days failed_days cut_at", drop: true},
	"job_revisions":       {read: every, add: every},
	"job_stats":           {read: every, add: every, change: "total succeeded timed sum_us last_status last_finished_at last_run_at"},
	"jobs": {
		read:   every,
		add:    every, // new inline nodes of a workflow that changes
		change: "created_at updated_at max_attempts revision state kind priority name description tags spec target payload paused_until pause_note",
	},
	"leases":             {}, // of several tenants at once; Running reads them for explanations
	"limit_shares":       {read: every},
	"limits":             {read: every, add: every, change: "max_concurrent rate_count rate_us rate_burst paused_at paused_until paused_by pause_reason", drop: true},
	"live":               {read: every, add: every, change: "hold cancel_at cancel_ending group_max rate_count rate_us rate_burst", drop: true},
	"logs":               {read: every},
	"minutes":            {},
	"notification_rules": {read: every, add: every, change: "spec updated_at", drop: true},
	"operations":         {read: every, add: every, change: "state finished_at updated_at taken_until version"},
	"orders":             {add: every}, // a policy allows it for the tenant's running executions
	"partitions":         {},
	"past_secrets":       {read: every, add: every, change: "dropped_at", drop: true},
	"run_attempts":       {read: every},
	"run_events":         {read: every, add: every},
	"run_marks":          {read: every, add: every}, // changes of runs are made by the owner, see WriteRuns
	"run_members":        {read: every},
	"run_results":        {read: every},
	"run_spans":          {read: every},
	"run_waits":          {read: every},
	"runs":               {read: every},
	"schedules":          {read: every, add: every, change: "next_run_at runs revision active"},
	"secrets":            {read: every, add: every, change: "updated_at expires_at version key_id sealed", drop: true},
	"servers":            {},
	"sessions":           {read: every, change: "drain cordoned"},
	"settling":           {read: every, add: every, change: "behind at", drop: true},
	"sign_ins":           {read: every, drop: true},
	"signing_secrets":    {read: every, add: every, change: "expires_at prefix", drop: true}, // the prefix is recorded when a secret is shown
	"tally_marks":        {},
	"tenant_minutes":     {read: every},
	"tenants":            {read: every, change: "name"}, // so that its row can be locked; a policy forbids changes
	"traces":             {read: every, add: every, change: "at parent"},
	"watched":            {},
	"workflow_uses":      {read: every, add: every, drop: true},
	"workflow_versions":  {read: every, add: every},
}

// appMay lists the exceptions to what a server needs of a table that it does not own: everything.
var appMay = map[string]allowed{
	"carillon_migrations": {read: every},
	"audit":               {read: every, add: every, drop: true},
}

// asApp returns what a server needs of a table.
func asApp(table string) allowed {
	if a, ok := appMay[table]; ok {
		return a
	}
	return allowed{read: every, add: every, change: every, drop: true}
}

// privileges are those of a role on one table: "SELECT", or "UPDATE name" for one of a column.
type privileges map[string]bool

func (a allowed) privileges() privileges {
	out := privileges{}
	for verb, columns := range map[string]string{"SELECT": a.read, "INSERT": a.add, "UPDATE": a.change} {
		if columns == every {
			out[verb] = true
			continue
		}
		for _, c := range strings.Fields(columns) {
			out[verb+" "+c] = true
		}
	}
	if a.drop {
		out["DELETE"] = true
	}
	return out
}

// ourTables lists the tables of the schema, without the days of history, which have no policies and which only their
// owner may name.
const ourTables = `pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition`

const grantedSQL = `
	WITH t AS (SELECT c.oid, c.relname::text, c.relacl FROM ` + ourTables + `), r AS (SELECT oid FROM pg_roles WHERE rolname = $1)
	SELECT t.relname, '' FROM t
	UNION ALL
	SELECT t.relname, x.privilege_type FROM t CROSS JOIN LATERAL aclexplode(t.relacl) x WHERE x.grantee = (SELECT oid FROM r)
	UNION ALL
	SELECT t.relname, x.privilege_type || ' ' || a.attname FROM t JOIN pg_attribute a ON a.attrelid = t.oid CROSS JOIN LATERAL aclexplode(a.attacl) x
	WHERE x.grantee = (SELECT oid FROM r)`

// granted reads a role's privileges on each table.
func granted(ctx context.Context, c querier, role string) (map[string]privileges, error) {
	rows, err := c.Query(ctx, grantedSQL, role)
	if err != nil {
		return nil, err
	}
	out := map[string]privileges{}
	var table, privilege string
	_, err = pgx.ForEachRow(rows, []any{&table, &privilege}, func() error {
		if out[table] == nil {
			out[table] = privileges{}
		}
		if privilege != "" {
			out[table][privilege] = true
		}
		return nil
	})
	return out, err
}

// regrant lists the statements that give a role exactly its privileges. Tables for which it has them are left alone.
func regrant(has map[string]privileges, role string, may func(table string) allowed) (out []string) {
	for _, table := range slices.Sorted(maps.Keys(has)) {
		want := may(table).privileges()
		if maps.Equal(has[table], want) {
			continue
		}
		name := pgx.Identifier{table}.Sanitize()
		if len(has[table]) > 0 { // also those of columns
			out = append(out, fmt.Sprintf("REVOKE ALL ON %s FROM %s", name, role))
		}
		for _, p := range slices.Sorted(maps.Keys(want)) {
			if verb, column, ok := strings.Cut(p, " "); ok {
				p = verb + " (" + pgx.Identifier{column}.Sanitize() + ")"
			}
			out = append(out, fmt.Sprintf("GRANT %s ON %s TO %s", p, name, role))
		}
	}
	return out
}

// asTenant returns the privileges that users' requests need on a table: none on one that is not listed.
func asTenant(table string) allowed { return tenantMay[table] }

// misgranted lists the tables on which a role does not have the expected privileges.
func misgranted(ctx context.Context, c querier, role string, may func(string) allowed) (tables []string, err error) {
	has, err := granted(ctx, c, role)
	for _, table := range slices.Sorted(maps.Keys(has)) {
		if !maps.Equal(has[table], may(table).privileges()) {
			tables = append(tables, table)
		}
	}
	return tables, err
}
