package replica

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/carillon-jobs/carillon/internal/blob"
	"github.com/carillon-jobs/carillon/internal/blob/location"
	"github.com/carillon-jobs/carillon/internal/blob/s3"
)

func TestMain(m *testing.M) {
	os.Setenv("AWS_ACCESS_KEY_ID", "test-key")
	os.Setenv("AWS_SECRET_ACCESS_KEY", "test-secret")
	os.Exit(m.Run())
}

// bucket is an S3 service in this process that can be made to refuse.
func bucket(t *testing.T) (place blob.Store, refuse *atomic.Bool) {
	t.Helper()
	mem, refuse := s3mem.New(), new(atomic.Bool)
	if err := mem.CreateBucket("backups"); err != nil {
		t.Fatal(err)
	}
	service := gofakes3.New(mem).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuse.Load() {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(403)
			fmt.Fprint(w, "<Error><Code>AccessDenied</Code><Message>m</Message></Error>")
			return
		}
		service.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	at, err := location.Parse("s3://backups/of/carillon?path_style=true&region=us-east-1&endpoint=" + server.URL)
	if err != nil {
		t.Fatal(err)
	}
	s, err := s3.New(at)
	if err != nil {
		t.Fatal(err)
	}
	return s, refuse
}

// TestBucket goes through the whole life in a bucket: a replica, an instant, a bucket that refuses, damage, a backup.
func TestBucket(t *testing.T) {
	t.Parallel()
	place, refuse := bucket(t)
	r := newRigAt(t, place)
	r.write(3)
	r.step()
	r.write(2)
	r.step()
	between := r.now()
	r.write(2)
	r.step()
	r.must(Want{}, 7)
	r.must(Want{At: between}, 5)

	refuse.Store(true)
	r.write(1)
	r.step()
	if got := r.s.Status(); got.Failing == nil || got.Waiting == 0 {
		t.Errorf("got %+v", got)
	}
	refuse.Store(false)
	r.step()
	r.status(3, 1, 1)
	r.must(Want{}, 8)
	r.crash()
	r.write(1)
	r.step()
	r.status(1, 0, 0)
	r.must(Want{}, 9)

	if _, _, err := Backup(t.Context(), r.path, place, t.TempDir(), 1, "host", "test", r.now); err != nil {
		t.Fatal(err)
	}
	third := segmentName(r.s.Status().Generation, 3)
	if err := place.Delete(t.Context(), third); err != nil {
		t.Fatal(err)
	}
	_, err := r.restore(Want{From: r.s.Status().Generation})
	if bad := new(blob.Damaged); !errors.As(err, &bad) || bad.Name != third {
		t.Errorf("got %v", err)
	}
	if err := r.prune(); err != nil {
		t.Fatal(err)
	}
}

// prune deletes whatever is not needed for the latest instant.
func (r *rig) prune() error {
	v, err := Look(r.t.Context(), r.place)
	if err != nil {
		return err
	}
	return v.prune(r.t.Context(), r.s.created, r.now(), r.s.Status().Generation, "")
}
