package job

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"
)

// ID names a job, as a UUIDv7.
type ID [16]byte

// ExecutionID names an execution, as a UUIDv7.
type ExecutionID [16]byte

// WorkerID names a worker and its session with the server.
type WorkerID [16]byte

// Token is a fencing token: each lease of an execution carries a greater one.
type Token int64

// ParseID reads a job id in the usual UUID form.
func ParseID(s string) (ID, error) {
	u, err := parseUUID(s)
	return ID(u), err
}

// ParseExecutionID reads an execution id in the usual UUID form.
func ParseExecutionID(s string) (ExecutionID, error) {
	u, err := parseUUID(s)
	return ExecutionID(u), err
}

// ParseWorkerID reads a worker id in the usual UUID form.
func ParseWorkerID(s string) (WorkerID, error) {
	u, err := parseUUID(s)
	return WorkerID(u), err
}

func (i ID) String() string          { return formatUUID(i) }
func (i ExecutionID) String() string { return formatUUID(i) }
func (i WorkerID) String() string    { return formatUUID(i) }

// IsZero reports whether the id is unset.
func (i ID) IsZero() bool { return i == ID{} }

// IsZero reports whether the id is unset.
func (i ExecutionID) IsZero() bool { return i == ExecutionID{} }

// IsZero reports whether the id is unset.
func (i WorkerID) IsZero() bool { return i == WorkerID{} }

// At returns the instant the id was made, to the millisecond.
func (i ID) At() time.Time { return madeAt(i) }

// At returns the instant the id was made, to the millisecond.
func (i ExecutionID) At() time.Time { return madeAt(i) }

func madeAt(u [16]byte) time.Time {
	var b [8]byte
	copy(b[2:], u[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b[:]))).UTC()
}

// Append appends the text of String.
func (i ID) Append(b []byte) []byte { return appendUUID(b, i) }

// Append appends the text of String.
func (i ExecutionID) Append(b []byte) []byte { return appendUUID(b, i) }

func formatUUID(u [16]byte) string {
	var room [36]byte
	return string(appendUUID(room[:0], u))
}

func appendUUID(b []byte, u [16]byte) []byte {
	b = append(hex.AppendEncode(b, u[0:4]), '-')
	b = append(hex.AppendEncode(b, u[4:6]), '-')
	b = append(hex.AppendEncode(b, u[6:8]), '-')
	b = append(hex.AppendEncode(b, u[8:10]), '-')
	return hex.AppendEncode(b, u[10:16])
}

func parseUUID(s string) ([16]byte, error) {
	var u [16]byte
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, notUUID(s)
	}
	var h [32]byte
	copy(h[0:8], s[0:8])
	copy(h[8:12], s[9:13])
	copy(h[12:16], s[14:18])
	copy(h[16:20], s[19:23])
	copy(h[20:32], s[24:36])
	if _, err := hex.Decode(u[:], h[:]); err != nil {
		return [16]byte{}, notUUID(s)
	}
	return u, nil
}

func notUUID(s string) error { return fmt.Errorf("%q is not a UUID", s) }

// Partition is a fixed slice of all work.
type Partition int16

// Partitions is the number of partitions.
const Partitions = 64

// The multiplier that mixes the tail of an id, and its inverse.
const mixer, unmixer uint64 = 0x9E3779B97F4A7C15, 0xF1DE83E19937733D

// PartitionOf returns the partition of a job.
func PartitionOf(i ID) Partition {
	// The tail of a UUIDv7 is random, so a mix of it spreads evenly.
	h := binary.BigEndian.Uint64(i[8:]) * mixer
	return Partition(h >> 58)
}

// In moves an id, a UUIDv7, to a partition: it stays as random as it was, except for the partition's bits.
func (i ID) In(p Partition) ID {
	const rest = 1<<58 - 1
	h := binary.BigEndian.Uint64(i[8:]) * mixer & rest
	for {
		tail := (uint64(p)<<58 | h) * unmixer
		if tail>>62 == 0b10 { // the variant bits of a UUID: one in four has them
			binary.BigEndian.PutUint64(i[8:], tail)
			return i
		}
		h = (h + 1) & rest
	}
}

// NodeID turns a fresh UUIDv7 into the id of a job that runs an inline node of a workflow. It is a UUIDv8, which
// OfNode recognises.
func NodeID(fresh [16]byte) ID {
	fresh[6] = fresh[6]&0x0f | 0x80
	return ID(fresh)
}

// OfNode reports whether the id is of an inline node's job.
func (i ID) OfNode() bool { return i[6]>>4 == 8 }

// NodeExecutionID makes the id of an execution of a node that is no map out of a fresh UUIDv7. It is a UUIDv8, by which OfNode knows it.
func NodeExecutionID(fresh [16]byte) ExecutionID { return ExecutionID(NodeID(fresh)) }

// OfNode reports whether the id is of the execution of a node that is no map. The executions of items, of which there are very many, and
// those of jobs by themselves have other ids.
func (i ExecutionID) OfNode() bool { return i[6]>>4 == 8 }
