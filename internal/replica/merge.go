package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// Many segments in a row change the same pages. So once they are stored, a merged object with the last content of each page is stored
// beside them: a restore reads it in their stead. It is never needed, and every instant between them can still be restored.
const (
	mergeCount = 256      // segments in a merged object
	mergeBytes = 64 << 20 // of segments, that wait on the disk for it
)

// merging notes, with mu held, that a segment is stored, and merges it with those before it if they are enough. Files that wait for it
// have another ending: the next process removes them.
func (s *Shipper) merging(gen *generation, x segment) {
	if n := len(s.batch); n > 0 && s.batch[n-1].Index+1 != x.Index {
		s.unbatch()
	}
	kept := strings.TrimSuffix(x.file, ending) + storedEnding
	if err := os.Rename(x.file, kept); err != nil {
		_ = os.Remove(x.file)
		s.unbatch()
		return
	}
	x.file = kept
	s.batch = append(s.batch, x)
	bytes := int64(0)
	for _, y := range s.batch {
		bytes += y.size
	}
	switch full := len(s.batch) >= s.most || bytes >= mergeBytes; {
	case !full:
	case s.merges, len(s.batch) == 1, gen.ctx.Err() != nil: // the place is slower than they come, it is a large one, or the process ends
		s.unbatch()
	default:
		batch := s.batch
		s.batch, s.merges = nil, true
		s.work.Go(func() { s.merge(gen, batch) })
	}
}

// unbatch removes, with mu held, the files that waited to be merged.
func (s *Shipper) unbatch() {
	removeAll(s.batch)
	s.batch = nil
}

func removeAll(batch []segment) {
	for _, x := range batch {
		_ = os.Remove(x.file)
	}
}

// merge stores segments as one merged object. If that fails, they are as good as it.
func (s *Shipper) merge(gen *generation, batch []segment) {
	defer removeAll(batch)
	name := mergedName(gen.id, batch[0].Index, batch[len(batch)-1].Index)
	o, err := merged(filepath.Join(s.cfg.Folder, "merged"+partial), batch)
	if err == nil {
		defer os.Remove(o.file)
		asking, cancel := context.WithTimeout(gen.ctx, patience)
		err = s.put(asking, name, func(ctx context.Context) error { return o.put(ctx, s.cfg.Place, name) })
		cancel()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.merges = false
	switch {
	case err == nil:
		s.counts.Bytes += o.size
	case gen.ctx.Err() == nil:
		s.cfg.Log.Warn("segments could not be merged; a restore reads each of them", "place", s.cfg.Place.String(), "error", err)
	}
}

// merged writes the last content of each page in segments, which follow each other, into an object.
func merged(file string, batch []segment) (object, error) {
	first, last := batch[0], batch[len(batch)-1]
	h := last.head
	h.Kind, h.First, h.Previous, h.Last, h.Pages, h.Least = kindMerged, first.Index, first.Previous, last.sum, 0, last.Size
	for _, x := range batch {
		h.Least = min(h.Least, x.Size)
	}
	w, err := newWriter(file, h)
	if err != nil {
		return object{}, err
	}
	seen, size := make([]bool, last.Size+1), last.Size
	for i := len(batch) - 1; i >= 0 && err == nil; i-- {
		var p parsed
		if p, err = batch[i].reread(h.PageSize); err != nil {
			break
		}
		size = min(size, p.Size) // beyond it, pages were cut off later on
		_, err = p.each(func(number uint32, data []byte) error {
			if number > size || seen[number] {
				return nil
			}
			seen[number] = true
			return w.page(number, data)
		})
	}
	if err != nil {
		return object{}, errors.Join(err, w.abort())
	}
	return w.finish()
}

// reread reads a segment from its file.
func (x segment) reread(pageSize int) (parsed, error) {
	data, err := os.ReadFile(x.file)
	if err != nil {
		return parsed{}, err
	}
	p, why := parse(data)
	if why == "" && (p.sum != x.sum || p.PageSize != pageSize) {
		why = "it is another segment"
	}
	if why != "" {
		return p, fmt.Errorf("%s: %s", x.file, why)
	}
	return p, nil
}

// spans returns, for the first segment of each merged object up to the last one to restore, the last one in it.
func (v *Survey) spans(ctx context.Context, c Choice) (map[int64]int64, error) {
	out := map[int64]int64{}
	if c.Generation == "" {
		return out, nil
	}
	err := blob.Each(ctx, v.place, mergedObjects+c.Generation+"/", func(x blob.Info) error {
		if !known(x.Name) {
			return nil
		}
		if first, last := spanIn(x.Name); last <= c.Last {
			out[first] = max(out[first], last)
		}
		return nil
	})
	return out, err
}

// span writes the pages of a merged object that follows the segment with the sum chain, and returns the sum of the last segment in it.
// Nothing is written if it is damaged.
func (v *Survey) span(ctx context.Context, c Choice, first, last int64, chain string, file *os.File, r *Result) (string, error) {
	name := mergedName(c.Generation, first, last)
	p, err := fetch(ctx, v.place, name, 1<<30)
	if errors.Is(err, blob.ErrNotFound) {
		err = damaged(v.place, name, "it is missing")
	}
	if err == nil && (p.Kind != kindMerged || p.Generation != c.Generation || p.First != first || p.Index != last || p.Previous != chain) {
		err = damaged(v.place, name, fmt.Sprintf("it is the %s %d to %d of %s and follows %.12s; want %d to %d of %s after %.12s", p.Kind, p.First, p.Index, p.Generation, p.Previous, first, last, c.Generation, chain))
	}
	if err != nil {
		return "", err
	}
	if _, err := p.each(func(uint32, []byte) error { return nil }); err != nil {
		return "", damaged(v.place, name, err.Error())
	}
	size, err := file.Seek(0, io.SeekEnd)
	if least := int64(p.Least) * int64(p.PageSize); err == nil && size > least {
		err = file.Truncate(least)
	}
	if err == nil {
		err = p.write(v.place, name, file)
	}
	if err != nil {
		return "", err
	}
	r.Began, r.Ended, r.Pages = p.Began, p.Ended, p.Size
	r.Segments += int(last - first + 1)
	return p.Last, nil
}

// forgetMerged deletes the merged objects of a generation of which no restore can make use any more.
func (v *Survey) forgetMerged(ctx context.Context, generation string, upTo int64) error {
	return blob.Each(ctx, v.place, mergedObjects+generation+"/", func(x blob.Info) error {
		if !known(x.Name) {
			return nil
		}
		if first, _ := spanIn(x.Name); first > upTo {
			return nil
		}
		return v.removeOwn(ctx, x.Name, func(h head) bool { return h.Kind == kindMerged && h.Generation == generation })
	})
}
