// Package matrix lists the faults that Carillon must survive, and the tests that prove it.
//
// It lists, too, what a review of the product found broken, and the tests that hold it since.
//
// The lists are written into docs/internals/proof.md and review.md. The tests of this package fail when a row names a test that does
// not exist, when a row has tests on one store only and does not say why, and when a document is out of date.
package matrix

// Row is one fault. Its number is that in the list of faults, which tests name in their comments.
type Row struct {
	Number int
	Fault  string
	Both   []Test // run on each store
	// SQLite and Postgres are tests that run on that store alone.
	SQLite, Postgres []Test
	Plain            []Test // no store takes part
	Why              string // why a store has no test; "" where both have one
	Missing          string // the part of the row that no test proves
}

// Test names a test: the folder of its package, from the root of the repository, and its name as -run takes it.
type Test struct{ Package, Name string }

// in names tests of one package.
func in(pkg string, names ...string) (ts []Test) {
	for _, n := range names {
		ts = append(ts, Test{pkg, n})
	}
	return ts
}

// suite names groups of the conformance suite, which runs on both stores.
func suite(groups ...string) []Test { return in(conformance, groups...) }

// conformance is the folder of the conformance suite.
const conformance = "internal/engine/enginetest"
