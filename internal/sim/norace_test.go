//go:build !race

package sim

// defaultSeeds is the number of seeds that a run plays by default.
const defaultSeeds = 1000

// raced says that the race detector is on.
const raced = false
