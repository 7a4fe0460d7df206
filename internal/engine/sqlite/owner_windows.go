package sqlite

// give is for systems where a file belongs to whoever made it; here it has the rights of its folder.
func give(string) error { return nil }
