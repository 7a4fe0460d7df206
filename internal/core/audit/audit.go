// Package audit records every change that someone asked for: who, what, from where and when, with the state before
// and after.
//
// Entries are written with the changes they describe, and never modified. So that nobody can change or remove one
// unnoticed, they are sealed, a few at a time and in the order in which they were written: a seal lists the sums of
// its entries and is itself summed up together with the seal before it. Each tenant has its own chain. Verify finds
// the first entry that does not match its seal.
//
// A chain proves that nothing was changed in the middle of it. Anyone who can write to the database may cut off its
// end, or make a whole new one; the sum of the latest seal, kept elsewhere, reveals that.
package audit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Entry is one change.
type Entry struct {
	Seq     int64 // its position, given by the store: later ones have greater numbers
	Tenant  tenant.ID
	At      time.Time
	By      string // the name of the credential
	Role    tenant.Role
	Key     string // the id of the API key; "" for none
	From    string // the address that the request came from
	Request string // its id
	Action  string // the action, such as "job.create"
	Object  string // the id or the name of its object
	Count   int    // how many objects: of a batch of jobs, Object is the first
	Detail  []byte // before and after, as JSON without secrets; nil: neither
}

// Sum is the digest of an entry.
type Sum [16]byte

// Sum returns the entry's digest: over every field, each with its length.
func (e *Entry) Sum() Sum {
	h := sha256.New()
	var n [8]byte
	number := func(v int64) {
		binary.BigEndian.PutUint64(n[:], uint64(v))
		h.Write(n[:])
	}
	number(e.Seq)
	number(e.At.UnixMicro())
	number(int64(e.Count))
	for _, s := range []string{string(e.Tenant), e.By, string(e.Role), e.Key, e.From, e.Request, e.Action, e.Object, string(e.Detail)} {
		number(int64(len(s)))
		h.Write([]byte(s))
	}
	return Sum(h.Sum(nil)[:16])
}

// Mark is an entry as listed in a seal.
type Mark struct {
	Seq int64
	Sum Sum
}

const markSize = 8 + 16

// Seal closes a few entries of one tenant.
type Seal struct {
	Tenant tenant.ID
	Number int64 // 1 is the first; without gaps
	At     time.Time
	Marks  []Mark // of its entries, in order
	Prev   [32]byte
	Hash   [32]byte
}

// Close returns the seal over entries, in order, after the previous seal; that is the zero Seal for the first.
func Close(prev Seal, entries []Entry, at time.Time) Seal {
	s := Seal{Tenant: entries[0].Tenant, Number: prev.Number + 1, At: at, Marks: make([]Mark, len(entries)), Prev: prev.Hash}
	for i := range entries {
		s.Marks[i] = Mark{entries[i].Seq, entries[i].Sum()}
	}
	s.Hash = s.sum()
	return s
}

func (s *Seal) sum() [32]byte {
	h := sha256.New()
	h.Write(s.Prev[:])
	var n [8]byte
	for _, v := range []int64{s.Number, s.At.UnixMicro(), int64(len(s.Tenant))} {
		binary.BigEndian.PutUint64(n[:], uint64(v))
		h.Write(n[:])
	}
	h.Write([]byte(s.Tenant))
	h.Write(EncodeMarks(s.Marks))
	return [32]byte(h.Sum(nil))
}

// First returns the position of the first entry; a seal has at least one.
func (s *Seal) First() int64 { return s.Marks[0].Seq }

// Last returns the position of the last entry.
func (s *Seal) Last() int64 { return s.Marks[len(s.Marks)-1].Seq }

// EncodeMarks returns the stored form of marks.
func EncodeMarks(ms []Mark) []byte {
	b := make([]byte, 0, len(ms)*markSize)
	for _, m := range ms {
		b = append(binary.BigEndian.AppendUint64(b, uint64(m.Seq)), m.Sum[:]...)
	}
	return b
}

// DecodeMarks reads the stored form. An incomplete mark at the end is dropped, which changes the seal's sum.
func DecodeMarks(b []byte) []Mark {
	ms := make([]Mark, 0, len(b)/markSize)
	for ; len(b) >= markSize; b = b[markSize:] {
		ms = append(ms, Mark{int64(binary.BigEndian.Uint64(b)), Sum(b[8:markSize])})
	}
	return ms
}

// Broken is the first place where a chain does not hold.
type Broken struct {
	Seal int64
	Seq  int64 // the entry; 0: the seal itself
	Why  string
}

func (b *Broken) Error() string { return fmt.Sprintf("seal %d, entry %d: %s", b.Seal, b.Seq, b.Why) }

// Verify checks a seal against the previous one and against the entries stored from its first to its last. It returns
// nil if everything matches. For the oldest seal that is still kept, prev has only its number and its expected sum.
func Verify(prev Seal, s Seal, entries []Entry) *Broken {
	switch {
	case s.Number != prev.Number+1:
		return &Broken{Seal: prev.Number + 1, Why: "the seal was removed"}
	case s.Prev != prev.Hash:
		return &Broken{Seal: s.Number, Why: "the seal does not follow the one before it: one of them was changed"}
	case len(s.Marks) == 0 || s.sum() != s.Hash:
		return &Broken{Seal: s.Number, Why: "the seal was changed"}
	}
	for _, m := range s.Marks {
		if len(entries) == 0 || entries[0].Seq > m.Seq {
			return &Broken{s.Number, m.Seq, "the entry was removed"}
		}
		e := &entries[0]
		if e.Seq < m.Seq {
			return &Broken{s.Number, e.Seq, "the entry was put in later"}
		}
		if e.Sum() != m.Sum {
			return &Broken{s.Number, m.Seq, "the entry was changed"}
		}
		entries = entries[1:]
	}
	if len(entries) > 0 {
		return &Broken{s.Number, entries[0].Seq, "the entry was put in later"}
	}
	return nil
}
