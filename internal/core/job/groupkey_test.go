package job

import (
	"encoding/binary"
	"hash/fnv"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

// Keys are stored, so that they must stay what they were.
func TestGroupKeysAreFNV(t *testing.T) {
	for _, texts := range [][3]string{{}, {"default", "payload.customer", "7"}, {"a", "", "01a1e9da-a189-7b55-9c1d-466091269d62"}, {"ü", "x", strings.Repeat("long", 300)}} {
		h := fnv.New128a()
		for _, s := range texts {
			h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
			h.Write([]byte(s))
		}
		sum := h.Sum(nil)
		want := GroupKey(binary.BigEndian.Uint64(sum) ^ binary.BigEndian.Uint64(sum[8:]))
		if want &^= 1; texts[1] != "" { // which tells a key that jobs may share
			want |= 1
		}
		if got := groupKey(tenant.ID(texts[0]), texts[1], texts[2]); got != want {
			t.Errorf("%q: %d, want %d", texts, got, want)
		} else if got.Shared() != (texts[1] != "") || got == 0 {
			t.Errorf("%q: shared %v", texts, got.Shared())
		}
	}
}
