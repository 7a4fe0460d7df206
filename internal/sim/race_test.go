//go:build race

package sim

// defaultSeeds is the number of seeds that a run plays by default: fewer, since the race detector makes each ten times slower.
const defaultSeeds = 100

// raced says that the race detector is on.
const raced = true
