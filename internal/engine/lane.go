package engine

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// LaneNumber returns a number for a partition, a tenant and a class, for stores that keep lanes by a number: the
// partition in the top byte, and 56 bits of a hash of the others. It is stored; never change it.
func LaneNumber(p job.Partition, t tenant.ID, c job.Class) int64 {
	h := sha256.Sum256([]byte(string(t) + "\x1f" + string(c)))
	return int64(p)<<56 | int64(binary.BigEndian.Uint64(h[:])>>8)
}
