package app

import (
	"path/filepath"
	"slices"
	"testing"
)

// Uploads wait beside an embedded store unless a folder is set, and commands do not reach them.
func TestWhereUploadsWait(t *testing.T) {
	t.Parallel()
	store := filepath.Join(t.TempDir(), "carillon.db")
	for _, x := range []struct{ database, spool, want string }{
		{"sqlite:" + store, "", store + "-uploads"},
		{DevDatabase(filepath.Dir(store)), "", store + "-uploads"},
		{"sqlite:" + store, "/srv/spool", "/srv/spool"},
		{"postgres://localhost/carillon", "", ""},
		{"postgres://localhost/carillon", "/srv/spool", "/srv/spool"},
	} {
		r := &running{}
		r.Config.Database, r.Config.Blobs.Spool = x.database, x.spool
		if got := r.uploads(); got != x.want {
			t.Errorf("%s with %q: %q, want %q", x.database, x.spool, got, x.want)
		}
		if x.want != "" && !slices.Contains(r.private(), x.want) {
			t.Errorf("%s with %q: commands reach %s", x.database, x.spool, x.want)
		}
	}
}
