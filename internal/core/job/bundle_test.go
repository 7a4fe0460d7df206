package job

import (
	"bytes"
	"slices"
	"testing"

	"github.com/google/uuid"
)

func TestBundleIDs(t *testing.T) {
	seen := map[[16]byte]bool{}
	var last ID
	for p := range Partition(Partitions) {
		fresh := uuid.Must(uuid.NewV7())
		ids := BundleIDs(fresh, p, Bundle)
		if some := BundleIDs(fresh, p, 5); !slices.Equal(some[:5], ids[:5]) || !some[5].IsZero() {
			t.Errorf("five of them: %v, want %v and no more", some, ids[:5])
		}
		for n, id := range ids {
			if PartitionOf(id) != p || !Bundled(id) || Member(id) != n || BundleOf(id) != BundleOf(ids[0]) || bytes.Compare(last[:], id[:]) >= 0 {
				t.Errorf("member %d of partition %d: %s", n, p, id)
			}
			if u := uuid.UUID(id); u.Version() != 7 || u.Variant() != uuid.RFC4122 || !bytes.Equal(u[:8], fresh[:8]) {
				t.Errorf("%s is no UUIDv7 of the instant of %s", u, fresh)
			}
			if low := BundleOf(id); bytes.Compare(low[:], id[:]) > 0 {
				t.Errorf("%x is behind %s", low, id)
			}
			last = id
		}
		if seen[BundleOf(ids[0])] {
			t.Error("two bundles have the same ids")
		}
		seen[BundleOf(ids[0])] = true
	}
}

func BenchmarkBundleIDs(b *testing.B) {
	fresh := uuid.Must(uuid.NewV7())
	for b.Loop() {
		BundleIDs(fresh, 7, Bundle)
	}
}
