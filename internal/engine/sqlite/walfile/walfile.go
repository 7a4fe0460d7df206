// Package walfile reads the write-ahead log of an SQLite database, the file that
// ends in -wal, while others write it.
//
//	header: format, page size, number and salts of this log │ frame: page number, size of the database at a commit, salts, checksum, page │ frame │ …
//
// SQLite begins the log anew in the same file once all of it has been copied into
// the database: with other salts, so that frames of the former log, which are
// still in the file, are not taken for its own. Each checksum covers everything
// before it. A position therefore names one content of the log: a frame that
// continues it is the next one, and nothing lies between.
//
// The package never writes, opens nothing, and takes no locks. Whoever calls it
// knows when the log may begin anew.
package walfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	headerSize  = 32
	frameHeader = 24
	littleMagic = 0x377f0682 // the checksums read words with the least byte first
	bigMagic    = 0x377f0683
	version     = 3007000
	atOnce      = 64 // frames that are read with one call
)

// ErrEmpty says that there is no log, or one whose header is not whole yet.
var ErrEmpty = errors.New("the log of the database is empty")

// Position is a place between two transactions of a log, or before the first. The zero value is none.
type Position struct {
	PageSize int    `json:"page_size"`
	Big      bool   `json:"big,omitempty"`
	Seq      uint32 `json:"seq"` // how often the log was begun anew
	Salt1    uint32 `json:"salt1"`
	Salt2    uint32 `json:"salt2"`
	Frames   int64  `json:"frames"` // that come before it
	Sum1     uint32 `json:"sum1"`   // checksum of the header and these frames
	Sum2     uint32 `json:"sum2"`
}

// SameLog reports whether two positions are in the same log.
func (p Position) SameLog(o Position) bool {
	return p.Salt1 == o.Salt1 && p.Salt2 == o.Salt2 && p.Seq == o.Seq && p.PageSize == o.PageSize && p.Big == o.Big
}

// Follows reports whether p is in the log that SQLite begins directly after the one of o.
func (p Position) Follows(o Position) bool {
	return p.Seq == o.Seq+1 && p.Salt1 == o.Salt1+1 && p.PageSize == o.PageSize
}

// Start reads the header of a log and returns the position before its first frame.
func Start(r io.ReaderAt) (p Position, err error) {
	var h [headerSize]byte
	if _, err := r.ReadAt(h[:], 0); err != nil {
		if errors.Is(err, io.EOF) {
			err = ErrEmpty
		}
		return p, err
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(h[4*i:]) }
	switch word(0) {
	case littleMagic:
	case bigMagic:
		p.Big = true
	default:
		return p, ErrEmpty // zeros, or what was there before it was written
	}
	if word(1) != version {
		return p, fmt.Errorf("the log of the database has the version %d; want %d", word(1), version)
	}
	p.PageSize, p.Seq, p.Salt1, p.Salt2 = int(word(2)), word(3), word(4), word(5)
	if p.PageSize < 512 || p.PageSize > 1<<16 || p.PageSize&(p.PageSize-1) != 0 {
		return Position{}, fmt.Errorf("the log of the database has pages of %d bytes; want a power of two from 512 to 65536", p.PageSize)
	}
	p.add(h[:24])
	if p.Sum1 != word(6) || p.Sum2 != word(7) {
		return Position{}, ErrEmpty // it is being written
	}
	return p, nil
}

// add continues the checksum.
func (p *Position) add(b []byte) {
	s1, s2 := p.Sum1, p.Sum2
	if p.Big {
		for ; len(b) >= 8; b = b[8:] {
			s1 += binary.BigEndian.Uint32(b) + s2
			s2 += binary.BigEndian.Uint32(b[4:]) + s1
		}
	} else {
		for ; len(b) >= 8; b = b[8:] {
			s1 += binary.LittleEndian.Uint32(b) + s2
			s2 += binary.LittleEndian.Uint32(b[4:]) + s1
		}
	}
	p.Sum1, p.Sum2 = s1, s2
}

func (p Position) frameSize() int64 { return frameHeader + int64(p.PageSize) }

func (p Position) offset() int64 { return headerSize + p.Frames*p.frameSize() }

// Holds reports whether a log has the content that a position follows.
func (p Position) Holds(r io.ReaderAt) bool {
	start, err := Start(r)
	if err != nil || !start.SameLog(p) || p.Frames < 0 {
		return false
	}
	if p.Frames == 0 {
		return start == p
	}
	var h [frameHeader]byte
	if _, err := r.ReadAt(h[:], p.offset()-p.frameSize()); err != nil {
		return false
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(h[4*i:]) }
	return word(2) == p.Salt1 && word(3) == p.Salt2 && word(4) == p.Sum1 && word(5) == p.Sum2 && word(1) != 0
}

// begins reports whether a frame of the same log may come after a position.
func begins(r io.ReaderAt, at Position) (bool, error) {
	var h [frameHeader]byte
	if _, err := r.ReadAt(h[:], at.offset()); err != nil {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return false, err
	}
	return binary.BigEndian.Uint32(h[8:]) == at.Salt1 && binary.BigEndian.Uint32(h[12:]) == at.Salt2, nil
}

// TooLarge is the error of Read for a transaction of more bytes than Read keeps in memory.
type TooLarge struct{ Bytes int64 }

func (t *TooLarge) Error() string {
	return fmt.Sprintf("a transaction has changed more than %d MiB", t.Bytes>>20)
}

const maxTransaction = 512 << 20

// Read reads the transactions after a position, and returns the position after the last one that is whole. It calls
// page, unless it is nil, for each page that they wrote, in order, and commit with the size of the database in pages
// after each. The data is valid during the call only; page is called for whole transactions only.
func Read(r io.ReaderAt, from Position, page func(number uint32, data []byte), commit func(size uint32)) (Position, error) {
	at, size := from, from.frameSize()
	if there, err := begins(r, from); err != nil || !there {
		return from, err
	}
	buf := make([]byte, atOnce*size)
	var open []byte // frames of the transaction whose commit has not come yet
	for {
		n, err := r.ReadAt(buf, at.offset())
		if err != nil && !errors.Is(err, io.EOF) {
			return from, err
		}
		frames := int64(n) / size
		for i := range frames {
			frame := buf[i*size : (i+1)*size]
			word := func(i int) uint32 { return binary.BigEndian.Uint32(frame[4*i:]) }
			next := at
			next.add(frame[:8])
			next.add(frame[frameHeader:])
			if word(0) == 0 || word(2) != at.Salt1 || word(3) != at.Salt2 || word(4) != next.Sum1 || word(5) != next.Sum2 {
				return from, nil // the end, or a frame that is being written
			}
			next.Frames++
			at = next
			if page == nil {
				if word(1) != 0 {
					commit(word(1))
					from = at
				}
				continue
			}
			if word(1) == 0 {
				if open = append(open, frame...); int64(len(open)) > maxTransaction {
					return from, &TooLarge{maxTransaction}
				}
				continue
			}
			for f := range slices.Chunk(open, int(size)) {
				page(binary.BigEndian.Uint32(f), f[frameHeader:])
			}
			open = open[:0]
			page(word(0), frame[frameHeader:])
			commit(word(1))
			from = at
		}
		if frames < atOnce {
			return from, nil
		}
	}
}
