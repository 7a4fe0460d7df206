package sqlite

import (
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/enginetest"
)

func BenchmarkHerd(b *testing.B) {
	enginetest.Herd(b, func(b *testing.B) engine.Store { return fresh(b) }, []int{1000, 4000}, []int{1})
}
