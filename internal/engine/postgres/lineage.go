package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// A database may lose its last commits and continue: a lagging standby is promoted, or a backup is restored. Tokens
// that were drawn in the lost commits would be drawn again. So a database stores whose history it continues: the
// cluster's, the timeline of its log, which every promotion and every recovery from a base backup changes, and the
// sequence of tokens, which pg_restore creates again. Every connection is asked for these first, and if they differ
// from the stored ones, a new epoch of tokens begins.
const (
	lineageSQL = `
		SELECT pg_is_in_recovery(), now(), CASE WHEN NOT pg_is_in_recovery() AND to_regclass('tokens') IS NOT NULL AND to_regclass('installation') IS NOT NULL THEN
			CASE WHEN has_function_privilege('pg_control_system()', 'EXECUTE') THEN (SELECT system_identifier::text FROM pg_control_system()) ELSE '' END
			|| '/' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || '/' || to_regclass('tokens')::oid END`
	keepLineageSQL   = "INSERT INTO installation (name, value) VALUES ('lineage', $1) ON CONFLICT (name) DO NOTHING"
	lockLineageSQL   = "SELECT value FROM installation WHERE name = 'lineage' FOR UPDATE"
	changeLineageSQL = "UPDATE installation SET value = $1 WHERE name = 'lineage'"
)

var errStandby = fmt.Errorf("%w: %w: it is a standby, or recovers", engine.ErrUnavailable, engine.ErrReadOnly)

// recognize checks that a new connection leads to the known history, or else begins a new epoch of tokens.
func (s *Store) recognize(ctx context.Context, c *pgx.Conn) error {
	var standby bool
	var now time.Time
	var lineage *string
	err := c.QueryRow(ctx, lineageSQL).Scan(&standby, &now, &lineage)
	var p *pgconn.PgError
	switch {
	case errors.As(err, &p) && (p.Code == "0A000" || p.Code == "42883" || p.Code == insufficientPrivilege):
		return nil // a server that does not tell: whoever restores it raises the epoch
	case err != nil:
		return err
	case standby:
		return errStandby // and not one that is promoted meanwhile, with older connections
	case lineage == nil:
		return nil // there is no schema yet
	}
	if known := s.lineage.Load(); known != nil && *known == *lineage {
		return nil
	}
	was, token, err := begin(ctx, c, *lineage, now)
	if isCode(err, insufficientPrivilege) {
		return fmt.Errorf("%w: the database has lost its last commits or was restored, and this role may not begin a new epoch of tokens: run 'carillon migrate up' as the owner of the tables: %w", engine.ErrUnavailable, err)
	}
	if err != nil {
		return err
	}
	if was != "" && s.log != nil {
		s.log.WarnContext(ctx, "the database is not the one it was: a standby was promoted, or a backup restored. What was acknowledged last may be lost. Tokens begin a new epoch, so that older ones never win",
			"epoch", engine.EpochOf(token), "was", was, "is", *lineage)
	}
	s.lineage.Store(lineage)
	return nil
}

// begin stores a lineage. If another was stored, it returns that one and the first token of the epoch that begins.
func begin(ctx context.Context, c *pgx.Conn, lineage string, now time.Time) (was string, token int64, err error) {
	err = pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		var kept []byte
		err := tx.QueryRow(ctx, lockLineageSQL).Scan(&kept)
		if errors.Is(err, pgx.ErrNoRows) {
			_, err := tx.Exec(ctx, keepLineageSQL, []byte(lineage))
			return err
		}
		if err != nil || string(kept) == lineage {
			return err
		}
		var last int64
		if err := tx.QueryRow(ctx, "SELECT last_value FROM tokens").Scan(&last); err != nil {
			return err
		}
		was, token = string(kept), engine.TokenAfterLoss(last, now)
		if _, err := tx.Exec(ctx, "SELECT setval('tokens', $1, false)", token); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, changeLineageSQL, []byte(lineage))
		return err
	})
	return was, token, err
}
