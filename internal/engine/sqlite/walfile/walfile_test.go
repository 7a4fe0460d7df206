package walfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// database is a real SQLite database in WAL mode, which nothing folds by itself.
type database struct {
	t    *testing.T
	path string
	c    *sqlite.Conn
}

func open(t *testing.T, pageSize int) *database {
	t.Helper()
	d := &database{t: t, path: filepath.Join(t.TempDir(), "a.db")}
	d.c = d.connect()
	d.run(fmt.Sprintf("PRAGMA page_size = %d", pageSize), "PRAGMA journal_mode = WAL", "PRAGMA wal_autocheckpoint = 0", "CREATE TABLE x (id INTEGER PRIMARY KEY, v BLOB)")
	return d
}

func (d *database) connect() *sqlite.Conn {
	d.t.Helper()
	c, err := sqlite.OpenConn(d.path, sqlite.OpenReadWrite, sqlite.OpenCreate)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { c.Close() })
	return c
}

func (d *database) run(sql ...string) {
	d.t.Helper()
	for _, q := range sql {
		if err := sqlitex.ExecuteTransient(d.c, q, nil); err != nil {
			d.t.Fatalf("%s: %v", q, err)
		}
	}
}

func (d *database) log() *os.File {
	d.t.Helper()
	f, err := os.Open(d.path + "-wal")
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { f.Close() })
	return f
}

// content collects what Read tells.
type content struct {
	pages   map[uint32][]byte
	commits int
	size    uint32
}

func read(t *testing.T, r *os.File, from Position) (content, Position) {
	t.Helper()
	c := content{pages: map[uint32][]byte{}}
	at, err := Read(r, from, func(n uint32, data []byte) { c.pages[n] = bytes.Clone(data) }, func(size uint32) { c.commits++; c.size = size })
	if err != nil {
		t.Fatal(err)
	}
	return c, at
}

func start(t *testing.T, r *os.File) Position {
	t.Helper()
	p, err := Start(r)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPageSizes compares what is read of the log with what SQLite folds into the file.
func TestPageSizes(t *testing.T) {
	t.Parallel()
	for _, size := range []int{512, 1024, 4096, 8192, 65536} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			d := open(t, size)
			for i := range 20 {
				d.run(fmt.Sprintf("INSERT INTO x (v) VALUES (randomblob(%d))", i*700))
			}
			d.run("DELETE FROM x WHERE id % 3 = 0", "VACUUM")
			log := d.log()
			from := start(t, log)
			if from.PageSize != size {
				t.Errorf("pages of %d bytes", from.PageSize)
			}
			c, at := read(t, log, from)
			if c.commits != 23 { // with the table, without the mode, which is not in the log
				t.Errorf("%d transactions", c.commits)
			}
			if !at.Holds(log) || !from.Holds(log) {
				t.Error("the log does not hold what was read")
			}
			d.run("PRAGMA wal_checkpoint(PASSIVE)")
			file, err := os.ReadFile(d.path)
			if err != nil || len(file) != int(c.size)*size {
				t.Fatalf("%d bytes, want %d pages: %v", len(file), c.size, err)
			}
			for n, data := range c.pages {
				if n <= c.size && !bytes.Equal(file[int(n-1)*size:int(n)*size], data) {
					t.Errorf("page %d is another one", n)
				}
			}
			if more, again := read(t, log, at); more.commits != 0 || again != at {
				t.Errorf("read twice: %+v", more)
			}
		})
	}
}

// TestTransactionsAreWhole reads while a transaction is open that is larger than the cache, and after it was rolled back.
func TestTransactionsAreWhole(t *testing.T) {
	t.Parallel()
	d := open(t, 1024)
	log := d.log()
	_, at := read(t, log, start(t, log))
	d.run("PRAGMA cache_size = 5", "BEGIN", "INSERT INTO x (v) SELECT randomblob(900) FROM (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200) SELECT i FROM n)")
	info, err := log.Stat()
	if err != nil || info.Size() < at.offset()+50*at.frameSize() {
		t.Fatalf("the transaction has written nothing yet: %v", err)
	}
	if c, now := read(t, log, at); c.commits != 0 || len(c.pages) != 0 || now != at {
		t.Errorf("half a transaction: %+v", c)
	}
	d.run("ROLLBACK")
	if c, now := read(t, log, at); c.commits != 0 || now != at {
		t.Errorf("one that was rolled back: %+v", c)
	}
	d.run("INSERT INTO x (v) VALUES ('short')")
	c, next := read(t, log, at)
	if c.commits != 1 {
		t.Errorf("the one after it: %+v", c)
	}
	// Frames of the one that was rolled back follow, with salts and checksums of this log.
	if c, now := read(t, log, next); c.commits != 0 || now != next {
		t.Errorf("what follows: %+v", c)
	}
	// Pages that a transaction writes twice are written in place, with new checksums.
	d.run("BEGIN", "INSERT INTO x (v) SELECT randomblob(900) FROM x, (SELECT 1 UNION SELECT 2), (SELECT 1 FROM sqlite_schema)", "UPDATE x SET v = randomblob(900)", "UPDATE x SET v = zeroblob(900)", "COMMIT")
	if c, _ := read(t, log, next); c.commits != 1 {
		t.Errorf("one that wrote pages twice: %d", c.commits)
	}
}

// TestTheLogBeginsAnew reads after each kind of checkpoint.
func TestTheLogBeginsAnew(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"PASSIVE", "FULL", "RESTART", "TRUNCATE"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d := open(t, 4096)
			d.run("INSERT INTO x (v) SELECT randomblob(9000) FROM sqlite_schema, (SELECT 1 UNION SELECT 2)")
			log := d.log()
			_, before := read(t, log, start(t, log))
			d.run("PRAGMA wal_checkpoint(" + mode + ")")
			switch now, err := Start(log); {
			case mode == "TRUNCATE":
				if !errors.Is(err, ErrEmpty) || before.Holds(log) {
					t.Errorf("an empty log: %v", err)
				}
			case err != nil || !now.SameLog(before) || !before.Holds(log):
				t.Errorf("before the next transaction: %+v, %v", now, err)
			}
			d.run("INSERT INTO x (v) VALUES ('first')")
			now := start(t, log)
			if now.SameLog(before) || !now.Follows(before) || before.Follows(now) || before.Holds(log) {
				t.Errorf("%+v, then %+v", before, now)
			}
			c, at := read(t, log, now)
			if c.commits != 1 { // though frames of the former log follow
				t.Errorf("%d transactions", c.commits)
			}
			d.run("INSERT INTO x (v) VALUES ('second')")
			if c, _ := read(t, log, at); c.commits != 1 {
				t.Errorf("%d transactions after that", c.commits)
			}
			d.run("PRAGMA wal_checkpoint(RESTART)", "INSERT INTO x (v) VALUES ('x')", "PRAGMA wal_checkpoint(RESTART)", "INSERT INTO x (v) VALUES ('x')")
			if start(t, log).Follows(before) {
				t.Error("the log began anew three times")
			}
		})
	}
}

// TestEveryTruncation cuts the log at every byte of its last frames, and changes each byte: what is read is always whole transactions.
func TestEveryTruncation(t *testing.T) {
	t.Parallel()
	d := open(t, 512)
	d.run("INSERT INTO x (v) VALUES (randomblob(10))", "INSERT INTO x (v) VALUES (randomblob(3000))")
	log := d.log()
	from := start(t, log)
	whole, end := read(t, log, from)
	data := make([]byte, end.offset())
	if _, err := log.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
	take := func(data []byte) (commits int, at Position) {
		at, err := Read(bytes.NewReader(data), from, func(uint32, []byte) {}, func(uint32) { commits++ })
		if err != nil {
			t.Fatal(err)
		}
		return commits, at
	}
	for n := headerSize; n < len(data); n += 7 {
		if commits, at := take(data[:n]); commits >= whole.commits || at.offset() > int64(n) {
			t.Errorf("cut after %d bytes: %d transactions", n, commits)
		}
	}
	for i := headerSize; i < len(data); i += 13 {
		data[i] ^= 4
		if commits, at := take(data); commits >= whole.commits || at.offset() > int64(i) {
			t.Errorf("byte %d changed: %d transactions", i, commits)
		}
		data[i] ^= 4
	}
	for i := range headerSize {
		data[i] ^= 4
		if p, err := Start(bytes.NewReader(data)); err == nil {
			t.Errorf("byte %d of the header changed: %+v", i, p)
		}
		data[i] ^= 4
	}
	if _, err := Start(bytes.NewReader(nil)); !errors.Is(err, ErrEmpty) {
		t.Errorf("nothing: %v", err)
	}
	if commits, _ := take(data); commits != whole.commits || len(maps.Clone(whole.pages)) == 0 {
		t.Error("the log was not put back")
	}
}

// TestBigEndian reads a log as a machine with the other byte order writes it.
func TestBigEndian(t *testing.T) {
	t.Parallel()
	const size = 512
	var data []byte
	p := Position{PageSize: size, Big: true, Seq: 3, Salt1: 4, Salt2: 5}
	words := func(all ...uint32) (b []byte) {
		for _, w := range all {
			b = binary.BigEndian.AppendUint32(b, w)
		}
		return b
	}
	h := words(bigMagic, version, size, p.Seq, p.Salt1, p.Salt2)
	p.add(h)
	data = append(append(data, h...), words(p.Sum1, p.Sum2)...)
	page := bytes.Repeat([]byte{7}, size)
	q := p
	q.add(words(9, 9))
	q.add(page)
	data = append(append(data, words(9, 9, p.Salt1, p.Salt2, q.Sum1, q.Sum2)...), page...)
	got, err := Start(bytes.NewReader(data))
	if err != nil || got != p {
		t.Fatalf("%+v, %v", got, err)
	}
	commits := 0
	if _, err := Read(bytes.NewReader(data), got, func(n uint32, b []byte) {
		if n != 9 || !bytes.Equal(b, page) {
			t.Errorf("page %d", n)
		}
	}, func(uint32) { commits++ }); err != nil || commits != 1 {
		t.Errorf("%d, %v", commits, err)
	}
}
