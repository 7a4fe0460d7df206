package postgres

import (
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore"
	"github.com/carillon-jobs/carillon/internal/engine/sqlstore/behind"
)

// PackAll has the store put into a bundle whatever may be in one, and be it alone.
func (s *Store) PackAll() { s.packsAll = true }

// RunsBehind are the store's runs, changed by what was read a transaction before.
func RunsBehind(s engine.Store, between func()) engine.Runs {
	return sqlstore.NewRuns(behind.DB{RunDB: settings{s.(*Store).database}, Between: between})
}
