package engine

// Forgot is what was dropped.
type Forgot struct {
	N    int
	More bool
}
