// Package backend reads secrets that are stored elsewhere: in a folder, as Kubernetes and systemd mount them, and in
// HashiCorp Vault.
//
//	${secret:files/db-password}     FOLDER/TENANT/db-password
//	${secret:vault/shop/db#password}   MOUNT/data/PREFIX/TENANT/shop/db, field password
//
// The tenant's id is always a part of the path, added only here, and names cannot lead out of it. No error contains a
// value or a token.
package backend

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/secret"
)

// Files is a folder with a folder for each tenant, which contains a file for each secret.
type Files struct{ Folder string }

// Read reads a file. One line break at its end is not part of the value.
func (f Files) Read(_ context.Context, t tenant.ID, p secret.Path) (string, error) {
	if p.Field != "" || !secret.Segment(string(t)) {
		return "", secret.ErrMissing // a file has no fields
	}
	root, err := os.OpenRoot(f.Folder) // so that symbolic links cannot lead out of it
	if err != nil {
		return "", &secret.Away{Err: f.failed(err)}
	}
	defer root.Close()
	file, err := root.Open(filepath.Join(append([]string{string(t)}, p.Segments...)...))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // nor is there anything below a file
		return "", secret.ErrMissing
	}
	if err != nil {
		return "", f.failed(err)
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && !info.Mode().IsRegular() {
		return "", secret.ErrMissing
	}
	data, err := io.ReadAll(io.LimitReader(file, secret.MaxValue+2))
	if err != nil {
		return "", f.failed(err)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
}

func (f Files) failed(err error) error {
	return fmt.Errorf("the secret backend files (%s) cannot be read: %w", f.Folder, plain(err))
}

// plain returns an error without the path, which is named already.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
