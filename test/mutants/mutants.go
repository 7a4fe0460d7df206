// Package mutants breaks the guarantees of the product on purpose, one at a time, and sees that a test notices. A guarantee
// whose mutant survives is one that nothing holds.
//
// Each mutant replaces a piece of source that occurs exactly once in its file. Nothing is changed on disk: the mutated file
// takes the place of the real one by the -overlay flag of the go command. `make mutants` runs all of them; the ordinary tests
// see that every mutant still fits the source, that the test that is to kill it exists, and that the table in
// docs/internals/proof.md says the same.
package mutants

// Mutant is one fault that somebody could introduce.
type Mutant struct {
	Name    string // what is broken, as a sentence
	Kind    string // of guarantee
	File    string // from the root of the repository
	From    string // occurs in it exactly once
	To      string
	Package string // whose tests kill it, from the root
	Test    string // for -run: the fast test that kills it
	Args    string // to be passed to it beside
}

// The kinds of guarantees.
const (
	Fence     = "fence"
	Guard     = "guard"
	Counter   = "counter"
	Unlock    = "unlock"
	Clock     = "clock"
	Retry     = "retry"
	Limit     = "limit"
	Tenant    = "tenant"
	Redaction = "redaction"
)
