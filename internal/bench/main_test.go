package bench

import (
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }
