package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// allowed lists what a role may do to a table: verbs with the columns they may name.
type allowed struct {
	read, add, change string // "" for nothing, "*" for all columns, or names with spaces between them
	drop              bool
}

const every = "*"

// tenantMay says, for each table, what requests of users need. They run as the role carillon_tenant, for which policies leave the
// rows of one tenant. TestTheWallIsVertical fails for a table that is not here, and for a grant beyond what is.
//
// What a policy cannot keep to the rows of one tenant is neither read nor written.
var tenantMay = map[string]allowed{
	"alarms":              {read: every, drop: true},
	"api_keys":            {read: every, add: "id tenant role name hash created_at expires_at", change: "name expires_at revoked_at", drop: true}, // so that it can be locked; a policy lets none be dropped
	"attempts":            {read: every},
	"audit":               {read: every, add: "at count tenant by_whom role key_id origin request action object detail"},
	"audit_sealed":        {read: every},
	"audit_seals":         {read: every},
	"badges":              {read: every, add: every, drop: true},
	"buckets":             {}, // Draw looks into them for explanations
	"bundles":             {read: every, change: "open", drop: true},
	"calendars":           {read: every, add: every, change: "spec updated_at", drop: true},
	"carillon_migrations": {},
	"dead_letters":        {read: every, drop: true},
	"depths":              {read: every},
	"events":              {read: every, add: every},
	"executions":          {read: every, add: every, change: "tally"}, // so that rows can be locked; a policy refuses any change
	"failures":            {read: every},
	"fingerprints":        {read: every},
	"idempotency":         {read: every, add: every, change: "expires_at hash answer", drop: true},
	"installation":        {},
	"job_counts":          {read: every, add: every, change: "active counted_at"},
	"job_durations":       {read: every, add: every, change: "n"},
	"job_months":          {read: every},
	"job_revisions":       {read: every, add: every},
	"job_stats":           {read: every, add: every, change: "total succeeded timed sum_us last_status last_finished_at last_run_at"},
	"jobs": {
		read:   every,
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
	"orders":             {add: every}, // a policy lets it be for what runs of the tenant
	"partitions":         {},
	"past_secrets":       {read: every, add: every, change: "dropped_at", drop: true},
	"schedules":          {read: every, add: every, change: "next_run_at runs revision active"},
	"secrets":            {read: every, add: every, change: "updated_at expires_at version key_id sealed", drop: true},
	"servers":            {},
	"sessions":           {read: every, change: "drain cordoned"},
	"settling":           {read: every, add: every, change: "behind at", drop: true},
	"sign_ins":           {read: every, drop: true},
	"signing_secrets":    {read: every, add: every, change: "expires_at prefix", drop: true}, // the prefix is noted when a secret is shown
	"tally_marks":        {},
	"tenant_minutes":     {read: every},
	"tenants":            {read: every, change: "name"}, // so that its row can be locked; a policy refuses any change
	"traces":             {read: every, add: every, change: "at parent"},
	"watched":            {},
}

// appMay says what a server needs of a table that it does not own: all, but for these.
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

// ourTables lists the tables of the schema, without the days of history: those have no policies, and nobody but their owner may name one.
const ourTables = `pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition`

const grantedSQL = `
	WITH t AS (SELECT c.oid, c.relname::text, c.relacl FROM ` + ourTables + `), r AS (SELECT oid FROM pg_roles WHERE rolname = $1)
	SELECT t.relname, '' FROM t
	UNION ALL
	SELECT t.relname, x.privilege_type FROM t CROSS JOIN LATERAL aclexplode(t.relacl) x WHERE x.grantee = (SELECT oid FROM r)
	UNION ALL
	SELECT t.relname, x.privilege_type || ' ' || a.attname FROM t JOIN pg_attribute a ON a.attrelid = t.oid CROSS JOIN LATERAL aclexplode(a.attacl) x
	WHERE x.grantee = (SELECT oid FROM r)`

// granted reads what a role may do to each table.
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

// regrant lists the statements that give a role what it may do, and no more. Tables for which that holds are left alone.
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

// asTenant returns what requests of users need of a table: nothing of one that nobody has decided on.
func asTenant(table string) allowed { return tenantMay[table] }

// misgranted lists the tables on which a role has other privileges than it is to have.
func misgranted(ctx context.Context, c querier, role string, may func(string) allowed) (tables []string, err error) {
	has, err := granted(ctx, c, role)
	for _, table := range slices.Sorted(maps.Keys(has)) {
		if !maps.Equal(has[table], may(table).privileges()) {
			tables = append(tables, table)
		}
	}
	return tables, err
}
