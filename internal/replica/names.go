package replica

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The names of objects. Segments are in folders of 4 096, so that listing some of them is cheap everywhere.
const (
	generations   = "replica/generations/"
	segments      = "replica/segments/"
	mergedObjects = "replica/merged/"
	snapshots     = "replica/snapshots/"
	backups       = "backups/"
	manifest      = "/manifest"
	perFolder     = 12 // bits
	stampForm     = "20060102T150405.000000Z"
	partial       = ".partial"
)

var (
	idForm       = regexp.MustCompile(`^\d{8}T\d{6}\.\d{6}Z-[0-9A-Z]{8}$`)
	segmentForm  = regexp.MustCompile(`^[0-9a-f]{9}/[0-9a-f]{12}$`)
	mergedForm   = regexp.MustCompile(`^[0-9a-f]{12}-[0-9a-f]{12}$`)
	snapshotForm = regexp.MustCompile(`^[0-9a-f]{12}-\d{8}T\d{6}\.\d{6}Z$`)
	partForm     = regexp.MustCompile(`^(manifest|part-\d{6})$`)
)

func stamp(t time.Time) string { return t.UTC().Format(stampForm) }

// begunAt returns the instant in the id of a generation or a backup.
func begunAt(id string) time.Time {
	at, _, _ := strings.Cut(id, "-")
	t, _ := time.Parse(stampForm, at) // the form was checked
	return t
}

func segmentName(generation string, index int64) string {
	return fmt.Sprintf("%s%012x", segmentFolder(generation, index), index)
}

func segmentFolder(generation string, index int64) string {
	return fmt.Sprintf("%s%s/%09x/", segments, generation, index>>perFolder)
}

// indexIn reads the index at the beginning of a hexadecimal name.
func indexIn(name string) int64 {
	n, _ := strconv.ParseInt(name[:12], 16, 64) // the form was checked
	return n
}

func mergedName(generation string, first, last int64) string {
	return fmt.Sprintf("%s%s/%012x-%012x", mergedObjects, generation, first, last)
}

// spanIn reads the first and the last segment in the name of a merged object.
func spanIn(name string) (first, last int64) {
	return indexIn(name[len(name)-25:]), indexIn(name[len(name)-12:])
}

func snapshotName(generation string, index int64, at time.Time) string {
	return fmt.Sprintf("%s%s/%012x-%s", snapshots, generation, index, stamp(at))
}

func partName(of string, n int) string { return fmt.Sprintf("%s/part-%06d", of, n) }

// known reports whether an object's name is one of the package's.
func known(name string) bool {
	if rest, ok := strings.CutPrefix(name, generations); ok {
		return idForm.MatchString(rest)
	}
	if rest, ok := strings.CutPrefix(name, segments); ok {
		id, rest, _ := strings.Cut(rest, "/")
		return idForm.MatchString(id) && segmentForm.MatchString(rest)
	}
	if rest, ok := strings.CutPrefix(name, mergedObjects); ok {
		id, rest, _ := strings.Cut(rest, "/")
		return idForm.MatchString(id) && mergedForm.MatchString(rest)
	}
	if rest, ok := strings.CutPrefix(name, snapshots); ok {
		id, rest, _ := strings.Cut(rest, "/")
		of, object, _ := strings.Cut(rest, "/")
		return idForm.MatchString(id) && snapshotForm.MatchString(of) && partForm.MatchString(object)
	}
	if rest, ok := strings.CutPrefix(name, backups); ok {
		id, object, _ := strings.Cut(rest, "/")
		return idForm.MatchString(id) && partForm.MatchString(object)
	}
	return false
}
