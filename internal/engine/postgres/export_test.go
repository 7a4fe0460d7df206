package postgres

// PackAll has the store put into a bundle whatever may be in one, and be it alone.
func (s *Store) PackAll() { s.packsAll = true }
