package workflow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// encoding is the version of the encoded form.
const encoding = 1

// heldBit marks a held node in the byte of its status.
const heldBit = 0x80

// Encode encodes a state for a store: 4 bytes per node, and two bits per item of each map.
func (s *State) Encode() []byte {
	b := make([]byte, 0, 32+4*len(s.cells))
	b = append(b, encoding, byte(s.Status), byte(s.ending), flag(s.forced, 1)|flag(s.paused, 2)|flag(s.cleanup, 4)|flag(s.room > 0, 8))
	for _, n := range []int{s.Attempt, s.open, s.openLast, s.failures, s.stops, len(s.cells)} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	if s.room > 0 {
		b = binary.AppendUvarint(b, uint64(s.room))
	}
	for i := range s.cells {
		c := &s.cells[i]
		b = append(b, byte(c.status)|flag(c.held, heldBit), byte(c.reason)<<4|byte(c.seen))
		b = binary.LittleEndian.AppendUint16(b, c.unmet)
	}
	b = binary.AppendUvarint(b, uint64(len(s.maps)))
	for _, n := range slices.Sorted(maps.Keys(s.maps)) {
		m := s.maps[n]
		for _, x := range []int{int(n), m.width, m.cursor, m.live, m.good, m.failed, m.skipped, m.parallel, m.tolerate.Count, int(flag(m.tolerate.Share, 1))} {
			b = binary.AppendUvarint(b, uint64(x))
		}
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(m.tolerate.Percent))
		b = append(b, m.codes...)
	}
	return b
}

func flag(set bool, bit byte) byte {
	if set {
		return bit
	}
	return 0
}

var errBroken = errors.New("the state is broken")

// DecodeState decodes the state of a run of this graph, as encoded by Encode.
func DecodeState(g *Graph, b []byte) (*State, error) {
	if len(b) < 4 || b[0] != encoding {
		return nil, fmt.Errorf("decode a run's state: %w", errBroken)
	}
	s := &State{Status: Status(b[1]), ending: Status(b[2]), forced: b[3]&1 != 0, paused: b[3]&2 != 0, cleanup: b[3]&4 != 0, maps: map[int32]*mapState{}}
	r := &reader{b: b[4:]}
	s.Attempt, s.open, s.openLast, s.failures, s.stops = r.int(), r.int(), r.int(), r.int(), r.int()
	n := r.int()
	if b[3]&8 != 0 {
		s.room = r.int()
	}
	if r.broken || n != len(g.nodes) || len(r.b) < 4*n {
		return nil, fmt.Errorf("decode a run's state of %d nodes for a graph of %d: %w", n, len(g.nodes), errBroken)
	}
	s.cells = make([]cell, len(g.nodes))
	for i := range s.cells {
		x := r.take(4)
		s.cells[i] = cell{
			status: Status(x[0] &^ heldBit), held: x[0]&heldBit != 0, reason: Reason(x[1] >> 4), seen: class(x[1] & 15), unmet: binary.LittleEndian.Uint16(x[2:]),
		}
	}
	for range r.int() {
		n, m := r.int(), &mapState{}
		m.width, m.cursor, m.live, m.good, m.failed, m.skipped, m.parallel = r.int(), r.int(), r.int(), r.int(), r.int(), r.int(), r.int()
		m.tolerate.Count, m.tolerate.Share = r.int(), r.int() != 0
		if percent := r.take(8); percent != nil {
			m.tolerate.Percent = math.Float64frombits(binary.LittleEndian.Uint64(percent))
		}
		m.codes = append([]byte{}, r.take((m.width+3)/4)...)
		if r.broken || n >= len(g.nodes) || m.cursor > m.width {
			return nil, fmt.Errorf("decode a run's map: %w", errBroken)
		}
		s.maps[int32(n)] = m
	}
	if r.broken || len(r.b) > 0 {
		return nil, fmt.Errorf("decode a run's state: %w", errBroken)
	}
	return s, nil
}

// reader takes bytes from the front; once there are too few, it is broken.
type reader struct {
	b      []byte
	broken bool
}

func (r *reader) int() int {
	x, n := binary.Uvarint(r.b)
	if n <= 0 || x > math.MaxInt32 {
		r.b, r.broken = nil, true
		return 0
	}
	r.b = r.b[n:]
	return int(x)
}

func (r *reader) take(n int) []byte {
	if r.broken || len(r.b) < n {
		r.b, r.broken = nil, true
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}
