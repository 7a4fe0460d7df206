package sqlite

// give does nothing: on these systems a file belongs to its creator, with the rights of its folder.
func give(string) error { return nil }
