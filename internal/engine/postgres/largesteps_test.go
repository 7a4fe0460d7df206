package postgres

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// smallTables hold what people configure, or a row for each server, tenant or partition. Every other table may have millions of rows.
var smallTables = []string{
	"alarms", "api_keys", "audit_sealed", "badges", "calendars", "carillon_migrations", "holds", "installation", "limit_shares", "limits", "notification_rules", "partitions", "servers", "sign_ins", "signing_secrets", "tenants",
}

var (
	sqlComment  = regexp.MustCompile(`--[^\n]*`)
	sqlSpace    = regexp.MustCompile(`\s+`)
	sqlBody     = regexp.MustCompile(`(?s)\$(\w*)\$.*?\$\w*\$`)
	indexOf     = regexp.MustCompile(`^CREATE (?:UNIQUE )?INDEX .*?\bON (ONLY )?(\w+)`)
	alters      = regexp.MustCompile(`^ALTER TABLE (?:IF EXISTS )?(?:ONLY )?(\w+) (.*)`)
	creates     = regexp.MustCompile(`^CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+)`)
	writes      = regexp.MustCompile(`\b(?:UPDATE|DELETE FROM|INSERT INTO) (?:ONLY )?(\w+)`)
	givesRows   = regexp.MustCompile(`\bSELECT\b`)
	addsRule    = regexp.MustCompile(`\bADD (?:CONSTRAINT|CHECK|FOREIGN|UNIQUE|PRIMARY|EXCLUDE)\b`)
	rewrites    = regexp.MustCompile(`\bADD COLUMN\b.*\b(?:SERIAL|BIGSERIAL|GENERATED|REFERENCES|UNIQUE|PRIMARY KEY|CHECK|RANDOM|GEN_RANDOM_UUID|CLOCK_TIMESTAMP|NEXTVAL)\b`)
	changesType = regexp.MustCompile(`\bALTER (?:COLUMN )?\w+ (?:SET DATA )?TYPE\b|\bSET (?:LOGGED|UNLOGGED|TABLESPACE|ACCESS METHOD)\b|\bATTACH PARTITION\b`)
	wholeTable  = regexp.MustCompile(`^(?:LOCK|CLUSTER|VACUUM FULL|REINDEX (?:TABLE|INDEX|DATABASE|SCHEMA) (?:[^C]|C[^O]))`)
)

// largeStep says what in a step would keep running servers from writing to a large table for as long as that table is large.
func largeStep(m engine.Migration) (wrong []string) {
	pieces, err := parts(m)
	if err != nil {
		return []string{err.Error()}
	}
	if len(pieces) == 0 {
		pieces = []string{m.SQL}
	}
	small := slices.Clone(smallTables)
	say := func(statement, want string) { wrong = append(wrong, fmt.Sprintf("%.80s: want %s", statement, want)) }
	for _, piece := range pieces {
		statements := split(piece)
		alone := len(statements) == 1
		altered := false
		for _, s := range statements {
			upper := strings.ToUpper(s)
			if x := creates.FindStringSubmatch(upper); x != nil {
				small = append(small, strings.ToLower(x[1])) // it has no rows yet
			}
			large := func(table string) bool { return !slices.Contains(small, strings.ToLower(table)) }
			if wholeTable.MatchString(upper) {
				say(s, "no lock of a whole table")
			}
			if x := indexOf.FindStringSubmatch(upper); x != nil && x[1] == "" && large(x[2]) && !(alone && strings.Contains(upper, "INDEX CONCURRENTLY IF NOT EXISTS")) {
				say(s, "CREATE INDEX CONCURRENTLY IF NOT EXISTS, alone in its part")
			}
			if x := alters.FindStringSubmatch(upper); x != nil && large(x[1]) {
				altered = true
				switch does := x[2]; {
				case addsRule.MatchString(does) && !strings.Contains(does, "NOT VALID") && !strings.Contains(does, "USING INDEX"):
					say(s, "the constraint NOT VALID, and VALIDATE CONSTRAINT in a part of its own, or USING INDEX")
				case rewrites.MatchString(does), changesType.MatchString(does):
					say(s, "a change that does not rewrite or read the whole table: a new column without a computed value, filled in pieces")
				case strings.Contains(does, "SET NOT NULL"):
					say(s, "a CHECK (… IS NOT NULL) NOT VALID, validated in a part of its own")
				case strings.Contains(does, "VALIDATE CONSTRAINT") && !alone:
					say(s, "it alone in its part")
				}
			}
			if x := writes.FindStringSubmatch(upper); x != nil && large(x[1]) && rowsOf(upper) && !(alone && strings.HasPrefix(upper, "DO ") && strings.Contains(upper, "COMMIT") && strings.Contains(upper, "LIMIT")) {
				say(s, "pieces: one DO block, alone in its part, that loops over a LIMIT with a COMMIT after each")
			}
		}
		if altered && len(wrong) == 0 && !alone && slices.ContainsFunc(statements, func(s string) bool { return givesRows.MatchString(strings.ToUpper(s)) }) {
			say(strings.TrimSpace(piece), "no statement that reads tables in the part that alters a large one")
		}
	}
	return wrong
}

func rowsOf(upper string) bool {
	return !strings.HasPrefix(upper, "INSERT INTO") || givesRows.MatchString(upper)
}

// split returns the statements of a text, each in one line, with the bodies of DO blocks, without comments.
func split(sql string) (out []string) {
	sql = sqlComment.ReplaceAllString(sql, "")
	sql = sqlBody.ReplaceAllStringFunc(sql, func(body string) string { return strings.ReplaceAll(body, ";", "\x00") })
	for s := range strings.SplitSeq(sql, ";") {
		if s = strings.TrimSpace(sqlSpace.ReplaceAllString(s, " ")); s != "" {
			out = append(out, strings.ReplaceAll(s, "\x00", ";"))
		}
	}
	return out
}

// A step that holds ACCESS EXCLUSIVE on a table with very many rows stops all who use it. No step after the first, which finds no rows, may
// hold it for long.
func TestStepsOverLargeTables(t *testing.T) {
	for _, m := range must[[]engine.Migration](t)(migrations())[1:] {
		for _, wrong := range largeStep(m) {
			t.Errorf("step %04d (%s): %s", m.Version, m.Name, wrong)
		}
	}
	for _, ok := range []string{
		made.SQL,
		"CREATE TABLE new (id int PRIMARY KEY); CREATE INDEX new_id ON new (id); ALTER TABLE new ADD CHECK (id > 0); INSERT INTO new SELECT 1;",
		"ALTER TABLE jobs ADD COLUMN x int NOT NULL DEFAULT 0; -- update jobs set x = 1\nALTER TABLE live ADD COLUMN y text;",
		"ALTER TABLE tenants ADD COLUMN x int CHECK (x > 0); CREATE INDEX tenants_x ON tenants (x); UPDATE tenants SET x = 1;",
		"CREATE INDEX executions_x ON ONLY executions (id);",
		"-- part: fill it\nDO $$ BEGIN LOOP UPDATE jobs SET x = 1 WHERE id IN (SELECT id FROM jobs WHERE x IS NULL LIMIT 1000); EXIT WHEN NOT FOUND; COMMIT; END LOOP; END $$;",
		"-- part: the key\nCREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS jobs_x ON jobs (x);\n-- part: use it\nALTER TABLE jobs ADD CONSTRAINT jobs_x UNIQUE USING INDEX jobs_x;",
		"INSERT INTO settling (tenant) VALUES ('a');",
	} {
		if wrong := largeStep(engine.Migration{SQL: ok}); len(wrong) > 0 {
			t.Errorf("%s\nis refused: %s", ok, wrong)
		}
	}
	for _, bad := range []string{
		"CREATE INDEX jobs_x ON jobs (name);",
		"-- part: one\nCREATE INDEX CONCURRENTLY IF NOT EXISTS jobs_x ON jobs (name); SELECT 1;",
		"-- part: one\nCREATE INDEX CONCURRENTLY jobs_x ON jobs (name);",
		"create unique index live_x\n  on live (job);",
		"ALTER TABLE secrets ADD CONSTRAINT x FOREIGN KEY (tenant, job) REFERENCES jobs (tenant, id);",
		"-- part: one\nALTER TABLE secrets ADD CONSTRAINT x CHECK (version > 0) NOT VALID;\nALTER TABLE secrets VALIDATE CONSTRAINT x;",
		"ALTER TABLE executions ALTER COLUMN status TYPE int;",
		"ALTER TABLE jobs ALTER name SET NOT NULL;",
		"ALTER TABLE jobs ADD COLUMN x uuid DEFAULT gen_random_uuid();",
		"ALTER TABLE jobs ADD COLUMN x bigserial;",
		"UPDATE live SET hold = 0;",
		"-- part: one\nDELETE FROM secrets WHERE job IS NULL;",
		"INSERT INTO schedules (tenant) SELECT tenant FROM jobs;",
		"LOCK TABLE jobs;",
		"REINDEX TABLE jobs;",
		"ALTER TABLE jobs ADD COLUMN x int; CREATE TABLE y AS SELECT * FROM executions;",
		"-- part: one\nDO $$ BEGIN UPDATE jobs SET x = 1; END $$;",
	} {
		if len(largeStep(engine.Migration{SQL: bad})) == 0 {
			t.Errorf("%s\nis let through", bad)
		}
	}
}
