//go:build !race

package sim

// defaultSeeds is how many seeds a run plays unless it is told.
const defaultSeeds = 1000
