package replica

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/blob"
)

// TestDamage breaks objects one after the other.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(t *testing.T, file string){
		"truncated": func(t *testing.T, file string) {
			info, err := os.Stat(file)
			if err == nil {
				err = os.Truncate(file, info.Size()*2/3)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"a bit": func(t *testing.T, file string) {
			data, err := os.ReadFile(file)
			if err == nil {
				data[len(data)/2] ^= 1
				err = os.WriteFile(file, data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
		"missing": func(t *testing.T, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
		"foreign": func(t *testing.T, file string) {
			if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"another segment": func(t *testing.T, file string) {
			data, err := os.ReadFile(strings.TrimSuffix(file, "4") + "5")
			if err == nil {
				err = os.WriteFile(file, data, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			for range 7 {
				r.write(1)
				r.step()
			}
			gen := r.s.Status().Generation
			object := segmentName(gen, 4) // has the fifth fact
			breakIt(t, filepath.Join(strings.TrimPrefix(r.place.String(), "file:"), object))
			_, err := r.restore(Want{})
			var bad *blob.Damaged
			if !errors.As(err, &bad) || bad.Name != object {
				t.Fatalf("got %v; want the name of %s", err, object)
			}
			out := r.must(Want{LastGood: true}, 4)
			if !strings.Contains(out.Stopped, object) {
				t.Errorf("it says %q", out.Stopped)
			}
		})
	}
	t.Run("a snapshot", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.write(1)
		r.step()
		r.write(1)
		r.ahead += 25 * time.Hour
		r.step() // with a second snapshot
		r.write(1)
		r.step()
		parts, _ := filepath.Glob(filepath.Join(strings.TrimPrefix(r.place.String(), "file:"), snapshots, "*", "*", "part-000000"))
		if len(parts) != 2 {
			t.Fatalf("there are %d snapshots", len(parts))
		}
		if err := os.Truncate(parts[1], 1000); err != nil {
			t.Fatal(err)
		}
		if _, err := r.restore(Want{}); !errors.As(err, new(*blob.Damaged)) {
			t.Fatalf("got %v", err)
		}
		r.must(Want{LastGood: true}, 3) // from the first one
	})
}

func TestForeignObjects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.write(1)
	r.step()
	gen := r.s.Status().Generation
	root := strings.TrimPrefix(r.place.String(), "file:")
	foreign := []string{
		generations + "notes.txt", generations + "20260101T000000.000000Z-AAAAAAAA", segments + gen + "/000000000/readme", segments + gen + "/000000000/0000000000ff.bak", snapshots + gen + "/x/manifest", "elsewhere/a", backups + "mine.zip",
	}
	for _, name := range foreign {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("not yours"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r.write(1)
	r.step()
	r.must(Want{}, 2)
	v, err := Look(t.Context(), r.place)
	if err != nil || len(v.Ignored) != 4 {
		t.Errorf("ignored: %v, %v", v.Ignored, err)
	}
	r.ahead += 1000 * time.Hour
	r.step()
	if _, err := r.s.retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range foreign {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
}
