package job

import "encoding/binary"

// Bundle is the maximum number of one-off jobs created together whose ids show that they belong together, and
// BundleLeast the number from which that is worth it.
const (
	Bundle      = 32
	BundleLeast = 4
)

// bundled is the tenth byte of the ids of a bundle. One in 256 ordinary ids has it, too.
const bundled = 0xB5

// BundleIDs makes n ids of a bundle, in one partition and in ascending order, from a fresh UUIDv7. They share their
// first twelve bytes; the next five bits are the member's number, and the bits after them select the partition.
func BundleIDs(fresh [16]byte, p Partition, members int) (out [Bundle]ID) {
	fresh[9] = bundled
	head := binary.BigEndian.Uint64(fresh[8:]) &^ (1<<32 - 1)
	random := binary.BigEndian.Uint32(fresh[12:])
	for n := range members {
		const most = 1<<27 - 1
		for x := random; ; x++ { // about one in 64
			tail := head | uint64(n)<<27 | uint64(x&most)
			if Partition(tail*mixer>>58) == p {
				out[n] = ID(fresh)
				binary.BigEndian.PutUint64(out[n][8:], tail)
				break
			}
		}
	}
	return out
}

// Bundled reports whether an id may be of a bundle.
func Bundled(id [16]byte) bool { return id[9] == bundled }

// BundleOf returns the common prefix of a bundle's ids; none of them is less than it.
func BundleOf(id [16]byte) [16]byte {
	clear(id[12:])
	return id
}

// Member returns the number of an id within its bundle.
func Member(id [16]byte) int { return int(id[12] >> 3) }
