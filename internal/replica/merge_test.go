package replica

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/folder"
)

// objects lists the objects below a prefix.
func (r *rig) objects(prefix string) (out []string) {
	r.t.Helper()
	if err := blob.Each(r.t.Context(), r.place, prefix, func(x blob.Info) error { out = append(out, x.Name); return nil }); err != nil {
		r.t.Fatal(err)
	}
	return out
}

// merge has a snapshot of a fact, and n segments with several pages each, of which four are merged. It returns the instants after them.
func (r *rig) merge(n int) (at []time.Time) {
	r.t.Helper()
	r.s.most = 4
	r.write(1)
	r.step()
	for range n {
		r.write(20)
		r.step()
		at = append(at, r.now())
	}
	return at
}

func TestMergedSegments(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := r.merge(11)
	gen := r.s.gen.id
	if got := r.objects(mergedObjects); fmt.Sprint(got) != fmt.Sprint([]string{mergedName(gen, 1, 4), mergedName(gen, 5, 8)}) {
		t.Fatalf("merged: %v", got)
	}
	if left, _ := filepath.Glob(r.path + "-replica/*" + storedEnding); len(left) != 3 {
		t.Errorf("%d segments wait to be merged", len(left))
	}
	reads := map[string]int{}
	r.place.read = func(name string) { reads[name]++ }
	if out := r.must(Want{}, r.n); out.Segments != 11 || len(out.Ended.String()) == 0 || out.Last != 11 {
		t.Errorf("got %+v", out)
	}
	for i := range int64(8) {
		if reads[segmentName(gen, i+1)] > 0 {
			t.Errorf("the segment %d was read, although it is in a merged object", i+1)
		}
	}
	r.place.read = nil
	for i, instant := range at { // each of them can be restored
		if out := r.must(Want{At: instant}, 21+20*i); out.Segments != i+1 {
			t.Errorf("at %d: %+v", i, out)
		}
	}

	// A damaged one is as good as none, and a merged one as good as its segments.
	r.spoil(mergedName(gen, 1, 4))
	r.lose(segmentName(gen, 6))
	r.place.read = func(name string) { reads[name]++ }
	v := r.survey()
	choice, err := v.Choose(t.Context(), Want{From: gen, LastGood: true})
	if err != nil || choice.Last != 5 {
		t.Fatalf("got %+v, %v", choice, err) // the names show that a segment is missing
	}
	if err := os.WriteFile(r.file(segmentName(gen, 6)), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.must(Want{}, r.n)
	if reads[segmentName(gen, 4)] == 0 || reads[segmentName(gen, 6)] > 0 {
		t.Errorf("read: %v", reads)
	}
	data, err := os.ReadFile(r.file(mergedName(gen, 5, 8)))
	if err == nil {
		err = os.WriteFile(r.file(mergedName(gen, 1, 4)), data, 0o600) // whole, and another
	}
	if err != nil {
		t.Fatal(err)
	}
	r.must(Want{}, r.n)

	// The next process begins with what it stores itself.
	r.crash()
	r.s.most = 4
	if left, _ := filepath.Glob(r.path + "-replica/*" + storedEnding); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	for range 4 {
		r.write(20)
		r.step()
	}
	if got := r.objects(mergedObjects); len(got) != 3 || got[2] != mergedName(gen, 12, 15) {
		t.Errorf("merged: %v", got)
	}
	r.must(Want{}, r.n)
}

// TestMergingIsNotNeeded has a place refuse what is merged, and one that is away.
func TestMergingIsNotNeeded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.place.before = func(name string) {
		if strings.HasPrefix(name, mergedObjects) {
			r.place.away = blob.ErrUnavailable // too late for this one
			r.mount().leave()
		}
	}
	r.merge(4)
	r.place.before, r.place.away = nil, nil
	r.mount().back()
	if got := r.objects(mergedObjects); len(got) > 0 {
		t.Errorf("merged: %v", got)
	}
	for range 5 {
		r.write(20)
		r.step()
	}
	if got := r.objects(mergedObjects); len(got) != 1 || r.s.gen.index != 9 {
		t.Errorf("merged: %v", got)
	}
	r.status(9, 1, 1)
	r.must(Want{}, r.n)
}

func TestRetentionOfMergedSegments(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.merge(6)
	gen := r.s.gen.id
	r.ahead += 25 * time.Hour
	r.write(20)
	r.step() // with a snapshot after segment 7
	for range 6 {
		r.write(20)
		r.step()
	}
	foreign := mergedName(gen, 3, 5)
	r.spoil(foreign)
	snapshot := r.survey().Generations[0].Snapshots[1]
	if err := r.survey().prune(t.Context(), r.s.created, snapshot.Ended, gen, ""); err != nil {
		t.Fatal(err)
	}
	// The second one began before the snapshot: no restore can use it.
	if got := r.objects(mergedObjects); fmt.Sprint(got) != fmt.Sprint([]string{foreign, mergedName(gen, 9, 12)}) {
		t.Errorf("left: %v", got)
	}
	r.must(Want{}, r.n)
	r.begin(1)
	r.ahead += time.Hour
	if err := r.survey().prune(t.Context(), r.s.created, r.now(), r.s.gen.id, ""); err != nil {
		t.Fatal(err)
	}
	if got := r.objects(mergedObjects); fmt.Sprint(got) != fmt.Sprint([]string{foreign}) {
		t.Errorf("left: %v", got)
	}
	r.must(Want{}, r.n)
}

// TestMergedIsWhatSegmentsAre replays random segments, of databases that grow and shrink, and the merged object.
func TestMergedIsWhatSegmentsAre(t *testing.T) {
	t.Parallel()
	const pageSize, gen = 512, "20260101T000000.000000Z-AAAAAAAA"
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		v := &Survey{place: folder.New(filepath.Join(dir, "place"))}
		var batch []segment
		previous := "sum"
		for i := range int64(1 + random.IntN(8)) {
			h := head{Kind: kindSegment, Generation: gen, Index: i + 1, Previous: previous, PageSize: pageSize, Size: uint32(1 + random.IntN(20))}
			pages := map[uint32][]byte{}
			for range random.IntN(10) {
				pages[uint32(1+random.IntN(int(h.Size)))] = bytes.Repeat([]byte{byte(random.IntN(256))}, pageSize)
			}
			h.Pages = len(pages)
			o, err := local{dir}.write(h, pages)
			if err == nil {
				err = o.put(t.Context(), v.place, segmentName(gen, h.Index))
			}
			if err != nil {
				t.Fatal(err)
			}
			batch, previous = append(batch, segment{o, h}), o.sum
		}
		last := int64(len(batch))
		o, err := merged(filepath.Join(dir, "merged"), batch)
		if err == nil {
			err = o.put(t.Context(), v.place, mergedName(gen, 1, last))
		}
		if err != nil {
			t.Fatal(err)
		}
		var files [2]string
		base := bytes.Repeat([]byte{255}, pageSize*random.IntN(25))
		for i, replay := range []func(*os.File) (string, error){
			func(f *os.File) (sum string, err error) {
				sum = "sum"
				for index := int64(1); err == nil && index <= last; index++ {
					sum, err = v.segment(t.Context(), Choice{Generation: gen}, index, sum, f, &Result{})
				}
				return sum, err
			},
			func(f *os.File) (string, error) {
				return v.span(t.Context(), Choice{Generation: gen}, 1, last, "sum", f, &Result{})
			},
		} {
			files[i] = filepath.Join(dir, fmt.Sprint(i))
			if err := os.WriteFile(files[i], base, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(files[i], os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			sum, err := replay(f)
			if err != nil || sum != previous {
				t.Fatalf("seed %d: got %s, %v; want %s", seed, sum, err, previous)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		one, _ := os.ReadFile(files[0])
		other, err := os.ReadFile(files[1])
		if err != nil || !bytes.Equal(one, other) {
			t.Errorf("seed %d: %d and %d bytes differ: %v", seed, len(one), len(other), err)
		}
	}
}
