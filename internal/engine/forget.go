package engine

// Forgot counts what was dropped.
type Forgot struct {
	N    int
	More bool
}
