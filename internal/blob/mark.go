package blob

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"regexp"
)

// MarkName is the name of the object by which servers recognise a place that they share.
const MarkName = "carillon-mark"

var markText = regexp.MustCompile(`^carillon objects ([0-9A-Z]{26,64})\n$`)

// Mark returns the mark of a place, and makes one where there is none. Two processes that see the same mark see the same place.
// It fails if the place cannot be written, or replaces objects: then it stores nothing safely.
func Mark(ctx context.Context, s Store) (string, error) {
	text := []byte("carillon objects " + rand.Text() + "\n")
	o := Object{MarkName, int64(len(text)), sha256.Sum256(text)}
	for range 2 { // the second finds what the first has put, or another server
		err := s.Put(ctx, o, bytes.NewReader(text))
		if errors.Is(err, ErrExists) {
			return ReadMark(ctx, s)
		}
		if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%w: %s replaces objects; it must refuse a conditional write (If-None-Match: *) to a name that is taken", ErrRefused, s)
}

// ReadMark returns the mark of a place; ErrNotFound if it has none.
func ReadMark(ctx context.Context, s Store) (string, error) {
	const most = 200
	r, err := s.Get(ctx, MarkName, 0, most)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, most))
	if err != nil {
		return "", err
	}
	m := markText.FindSubmatch(text)
	if m == nil {
		return "", &Damaged{s.String(), MarkName, "it is not a mark"}
	}
	return string(m[1]), nil
}
