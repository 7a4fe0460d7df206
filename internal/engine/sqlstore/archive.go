package sqlstore

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/engine"
)

const (
	turnSQL     = "SELECT epoch, holder, until FROM archive_turn /*postgres: FOR UPDATE*/"
	takeTurnSQL = "UPDATE archive_turn SET epoch = $1, holder = $2, until = $3"
	// A turn that is over in the middle of a write would let two write; the lock makes the next holder wait.
	holdsTurnSQL = "SELECT true FROM archive_turn WHERE epoch = $1 /*postgres: FOR SHARE*/"
	noteTurnSQL  = "UPDATE archive_turn SET note = $1"
	beginFileSQL = "INSERT INTO archive_files (name, kind, state, day, part, rows, bytes, check_sum, hash, read_at, written_at) VALUES ($1, $2, 0, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (name) DO NOTHING"
	addShareSQL  = "INSERT INTO archive_shares (tenant, name, rows, first_at, last_at, made_from, made_until) VALUES ($1, $2, $3, $4, $5, $6, $7)"
	moveFileSQL  = "UPDATE archive_files SET state = $2 WHERE name = $1 AND state = $3"
	// lockOwnersSQL keeps new holds of the tenants that have something of a settled file waiting.
	lockOwnersSQL = `
		SELECT id FROM tenants WHERE id IN (SELECT s.tenant FROM archive_shares s JOIN archive_files f ON f.name = s.name WHERE s.name = $1 AND f.state = 3)
		ORDER BY id /*postgres: FOR NO KEY UPDATE*/`
	fileHeldSQL = "SELECT " + holdColumns + ` FROM holds
		WHERE tenant IN (SELECT s.tenant FROM archive_shares s JOIN archive_files f ON f.name = s.name WHERE s.name = $1 AND f.state = 3) ORDER BY tenant, id LIMIT 1`
	retireFileSQL   = "UPDATE archive_files SET state = CASE state WHEN 3 THEN 4 ELSE 0 END WHERE name = $1 AND state IN (1, 3)"
	strikeFileSQL   = "DELETE FROM archive_files WHERE name = $1"
	strikeSharesSQL = "DELETE FROM archive_shares WHERE name = $1"
	fileColumns     = "f.name, f.kind, f.state, f.day, f.part, f.rows, f.bytes, f.check_sum, f.hash, f.read_at, f.written_at"
	shareColumns    = "s.tenant, s.rows, s.first_at, s.last_at, s.made_from, s.made_until"
)

// TakeArchive takes or keeps the turn.
func (s archive) TakeArchive(ctx context.Context, holder [16]byte, ttl time.Duration) (out engine.ArchiveTurn, err error) {
	err = s.db.Write(ctx, "take the turn to move history", func(tx Tx) error {
		now, err := tx.Now()
		if err != nil {
			return err
		}
		type turn struct {
			engine.ArchiveTurn
			until time.Time
		}
		has, err := one(tx, func(r Row) (t turn, err error) { return t, r.Scan(&t.Epoch, &t.Holder, &t.until) }, turnSQL)
		if err != nil {
			return err
		}
		out = engine.ArchiveTurn{Holder: holder, Epoch: has.Epoch}
		if has.Holder != holder {
			if has.until.After(now) {
				return engine.ErrConflict
			}
			out.Epoch++
		}
		_, err = tx.Exec(takeTurnSQL, out.Epoch, holder, now.Add(ttl))
		return err
	})
	return out, err
}

// HoldTurn returns engine.ErrConflict unless it is the turn, and keeps it until the transaction ends.
func HoldTurn(tx Tx, t engine.ArchiveTurn) error {
	holds, err := value[bool](tx, holdsTurnSQL, t.Epoch)
	if err == nil && !holds {
		err = engine.ErrConflict
	}
	return err
}

// write runs f in a transaction of whose turn it is.
func (s archive) write(ctx context.Context, doing string, t engine.ArchiveTurn, f func(Tx) error) error {
	return s.db.Write(ctx, doing, func(tx Tx) error {
		if err := HoldTurn(tx, t); err != nil {
			return err
		}
		return f(tx)
	})
}

// NoteArchive stores what the holder of the turn has to say.
func (s archive) NoteArchive(ctx context.Context, t engine.ArchiveTurn, note []byte) error {
	return s.db.Write(ctx, "note the state of the archive", func(tx Tx) error {
		return changeOne(tx, engine.ErrConflict, noteTurnSQL+" WHERE epoch = $2", note, t.Epoch)
	})
}

// ArchiveNote returns the last note.
func (s archive) ArchiveNote(ctx context.Context) (note []byte, err error) {
	err = s.db.Read(ctx, "read the state of the archive", func(tx Tx) error {
		note, err = value[[]byte](tx, "SELECT note FROM archive_turn")
		return err
	})
	if len(note) == 0 {
		note = nil
	}
	return note, err
}

// BeginFile adds a file that is about to be put under its name.
func (s archive) BeginFile(ctx context.Context, t engine.ArchiveTurn, f engine.ArchiveFile) error {
	return s.write(ctx, "begin a file of the archive", t, func(tx Tx) error {
		if err := changeOne(tx, engine.ErrConflict, beginFileSQL, f.Name, int(f.Kind), f.Day, f.Part, f.Rows, f.Bytes, int64(f.Check), f.SHA256[:], f.ReadAt, f.WrittenAt); err != nil {
			return err
		}
		rows := make([][]any, len(f.Shares))
		for i, x := range f.Shares {
			rows[i] = []any{string(x.Tenant), f.Name, x.Rows, x.First, x.Last, x.Made, x.Until}
		}
		return tx.ExecEach(addShareSQL, rows)
	})
}

// ProveFile says that a begun file is under its name.
func (s archive) ProveFile(ctx context.Context, t engine.ArchiveTurn, name string) error {
	return s.move(ctx, t, name, engine.FileProved, engine.FileBegun)
}

// SettleFile says that nothing of what a file has is left in the store.
func (s archive) SettleFile(ctx context.Context, t engine.ArchiveTurn, name string) error {
	return s.move(ctx, t, name, engine.FileSettled, engine.FileAnswers)
}

// RetireFile makes a file answer no longer, or never. New holds wait for it, as for whatever purges.
func (s archive) RetireFile(ctx context.Context, t engine.ArchiveTurn, name string) error {
	return s.write(ctx, "retire a file of the archive", t, func(tx Tx) error {
		if err := tx.Query(func(Row) error { return nil }, lockOwnersSQL, name); err != nil {
			return err
		}
		// A statement of its own: it sees every hold that was answered before the tenants were locked.
		if err := unheld(one(tx, scanHold, fileHeldSQL, name)); err != nil {
			return err
		}
		n, err := tx.Exec(retireFileSQL, name)
		if err != nil || n > 0 {
			return err
		}
		return inState(tx, name, engine.FileBegun, engine.FileRetired)
	})
}

// move changes the state of a file.
func (s archive) move(ctx context.Context, t engine.ArchiveTurn, name string, to, from engine.FileState) error {
	return s.write(ctx, "change a file of the archive", t, func(tx Tx) error {
		n, err := tx.Exec(moveFileSQL, name, int(to), int(from))
		if err != nil || n > 0 {
			return err
		}
		return inState(tx, name, to, to)
	})
}

// inState returns engine.ErrNotFound unless a file has one of two states.
func inState(tx Tx, name string, a, b engine.FileState) error {
	is, err := value[bool](tx, "SELECT true FROM archive_files WHERE name = $1 AND state IN ($2, $3)", name, int(a), int(b))
	if err == nil && !is {
		err = engine.ErrNotFound
	}
	return err
}

// StrikeFile removes a file from the catalogue.
func (s archive) StrikeFile(ctx context.Context, t engine.ArchiveTurn, name string) error {
	return s.write(ctx, "strike a file of the archive", t, func(tx Tx) error {
		if _, err := tx.Exec(strikeSharesSQL, name); err != nil {
			return err
		}
		_, err := tx.Exec(strikeFileSQL, name)
		return err
	})
}

// ArchiveFiles lists files.
func (s archive) ArchiveFiles(ctx context.Context, f engine.FileFilter) ([]engine.ArchiveFile, error) {
	sql, ps := archiveFilesSQL(f)
	return readAll(ctx, s.db, "list files of the archive", func(r Row) (x engine.ArchiveFile, err error) {
		var kind, state int
		var check int64
		to := []any{&x.Name, &kind, &state, &x.Day, &x.Part, &x.Rows, &x.Bytes, &check, &x.SHA256, &x.ReadAt, &x.WrittenAt}
		if f.Tenant != "" {
			x.Shares = make([]engine.ArchiveShare, 1)
			y := &x.Shares[0]
			to = append(to, (*string)(&y.Tenant), &y.Rows, &y.First, &y.Last, &y.Made, &y.Until)
		}
		err = r.Scan(to...)
		x.Kind, x.State, x.Check = engine.ArchiveKind(kind), engine.FileState(state), uint32(check)
		return x, err
	}, sql, ps...)
}

func archiveFilesSQL(f engine.FileFilter) (string, params) {
	var ps params
	columns, from, where := fileColumns, "archive_files f", "true"
	if f.Tenant != "" {
		columns += ", " + shareColumns
		from = "archive_shares s CROSS JOIN archive_files f"
		where = "s.tenant = " + ps.add(string(f.Tenant)) + " AND f.name = s.name"
		if !f.From.IsZero() {
			where += " AND s.last_at >= " + ps.add(f.From)
		}
		if !f.Until.IsZero() {
			where += " AND s.first_at <= " + ps.add(f.Until)
		}
		if !f.Made.IsZero() {
			at := ps.add(f.Made)
			where += " AND s.made_from <= " + at + " AND s.made_until >= " + at
		}
	}
	if f.Kind != 0 {
		where += " AND f.kind = " + ps.add(int(f.Kind))
	}
	if !f.Day.IsZero() {
		where += " AND f.day = " + ps.add(f.Day)
	}
	if f.Name != "" {
		where += " AND f.name = " + ps.add(f.Name)
	}
	if f.Answering {
		where += " AND f.state IN (2, 3)"
	}
	return "SELECT " + columns + " FROM " + from + " WHERE " + where + " ORDER BY f.day DESC, f.name", ps
}

// ProvedSum returns what the proved files of executions of a day have together.
func ProvedSum(tx Tx, day time.Time) (rows int64, check uint32, err error) {
	type sum struct{ rows, check int64 }
	x, err := one(tx, func(r Row) (x sum, err error) { return x, r.Scan(&x.rows, &x.check) },
		"SELECT coalesce(sum(rows), 0)/*postgres: ::int8*/, coalesce(sum(check_sum), 0)/*postgres: ::int8*/ FROM archive_files WHERE day = $1 AND kind = 1 AND state = 1", day)
	return x.rows, uint32(x.check), err
}

// AnswerDay makes the proved files of a day answer for its executions.
func AnswerDay(tx Tx, day time.Time) error {
	_, err := tx.Exec("UPDATE archive_files SET state = 2 WHERE day = $1 AND state = 1", day)
	return err
}
