//go:build race

package sim

// defaultSeeds is how many seeds a run plays unless it is told: fewer, since the race detector makes each ten times slower.
const defaultSeeds = 100

// raced says that the race detector is on.
const raced = true
