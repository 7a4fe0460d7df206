package artifact

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// full gives the errors of a place for objects, and of a disk without room, the names that callers of this package know.
func full(err error) error {
	var known error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, blob.ErrNotFound):
		known = ErrNotFound
	case errors.Is(err, blob.ErrNoRoom), slices.ContainsFunc(noRoom, func(e error) bool { return errors.Is(err, e) }):
		known = ErrNoRoom
	case errors.Is(err, blob.ErrUnavailable), errors.Is(err, blob.ErrRefused):
		known = ErrUnavailable
	default:
		return err
	}
	return fmt.Errorf("%w: %w", known, err)
}

// onDisk is an artifact in a file.
type onDisk struct {
	*os.File
	size int64
}

func (o onDisk) Size() int64 { return o.size }

func blobOf(file *os.File) (Blob, error) {
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	return onDisk{file, info.Size()}, nil
}
