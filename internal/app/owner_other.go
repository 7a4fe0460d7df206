//go:build !unix

package app

import "io/fs"

// ownedByRoot returns false: this system has no superuser.
func ownedByRoot(fs.FileInfo) bool { return false }
