package sqlite

import (
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore/behind"
)

// RunsBehind are the store's runs, changed by what was read a transaction before.
func RunsBehind(s engine.Store, between func()) engine.Runs {
	return sqlstore.NewRuns(behind.DB{RunDB: settings{s.(*Store).database}, Between: between})
}
