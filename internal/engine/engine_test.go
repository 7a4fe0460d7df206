package engine

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// A field that is added to a stored type and forgotten in its codec comes back empty.
func TestStoredFormsKeepEveryField(t *testing.T) {
	target := job.Target{
		Kind: job.HTTP, Timeout: time.Minute, URL: "u", Method: "M", Headers: map[string]string{"a": "b"}, ExpectStatus: []int{200}, ExpectBody: "x",
		FollowRedirects: true, Handler: "h", WorkKind: "w", Duration: time.Second, FailAttempts: 3, Stall: time.Minute, Total: time.Hour,
		Command: []string{"c"}, Artifact: "a", Entrypoint: "e", Env: map[string]string{"E": "v"}, Version: 4,
	}
	filled(t, target)
	if got, err := DecodeTarget(EncodeTarget(&target)); err != nil || !reflect.DeepEqual(got, target) {
		t.Errorf("target: %+v, %v", got, err)
	}
	spec := job.Definition{
		Description: "d", Owner: "o", Runbook: "r", Queue: "q", Labels: []string{"l"}, Schedule: job.Schedule{At: time.Date(2026, 1, 1, 0, 0, 0, 1000, time.UTC)},
		Retry:         job.RetryPolicy{MaxRetries: 1, Backoff: job.Linear, InitialDelay: 2, MaxDelay: 3},
		MaxConcurrent: 3, ConcurrencyKey: "k", Rate: job.Rate{Count: 1, Per: 2, Burst: 3}, UniqueKey: "u", ExpiresAfter: 4, AutoRedriveAfter: 5,
		Retention: job.Retention{Days: 6, FailedDays: 7},
	}
	filled(t, spec.Retry)
	filled(t, spec.Rate)
	j := job.Job{Definition: spec, Group: job.Group{Key: 9, Max: spec.MaxConcurrent, Rate: spec.Rate}}
	j.Target.Total = time.Hour
	var got job.Job
	if err := DecodeSpec(EncodeSpec(&j), &got); err != nil || !reflect.DeepEqual(got, j) {
		t.Errorf("spec: %+v, %v", got, err)
	}
	var held job.Held
	if err := DecodeHeld(EncodeSpec(&j), &held); err != nil || held.Retry != j.Retry || held.Total != time.Hour || held.AutoRedrive != j.AutoRedriveAfter {
		t.Errorf("held: %+v, %v", held, err)
	}
	at := time.Unix(5, 0)
	if p, err := DecodeProgress(EncodeProgress(7, "m"), at); err != nil || *p != (job.Progress{Percent: 7, Message: "m", At: at}) {
		t.Errorf("progress: %+v, %v", p, err)
	}
	e, r := &job.Error{Type: job.HTTPError, Message: "m", HTTPStatus: 503}, &job.Response{HTTPStatus: 503, BodyPreview: "b"}
	filled(t, *e)
	filled(t, *r)
	if gotE, gotR, err := DecodeEnd(EncodeEnd(e, r)); err != nil || *gotE != *e || *gotR != *r {
		t.Errorf("end: %+v, %+v, %v", gotE, gotR, err)
	}
	if EncodeEnd(nil, nil) != nil {
		t.Error("nothing is stored as something")
	}
	for _, bad := range []error{func() error { _, err := DecodeTarget([]byte("x")); return err }(), DecodeSpec([]byte("x"), &got), func() error { _, _, err := DecodeEnd([]byte("x")); return err }()} {
		if bad == nil {
			t.Error("nonsense was read")
		}
	}
}

// A form is what encoding/json makes of the same value, whichever field is set and whatever is in it.
func TestFormsAreJSON(t *testing.T) {
	texts := []string{"plain text", `"`, `\`, "<", ">", "&", "ü", "\x00", "\x7f", "\xff", "\u2028", "~ !"}
	same := func(v any, got, want []byte) {
		t.Helper()
		if string(got) != string(want) {
			t.Errorf("%+v: %s, want %s", v, got, want)
		}
	}
	for _, text := range texts {
		var target storedTarget
		same(target, target.append(nil), encode(target))
		for i := range reflect.TypeOf(target).NumField() {
			var one storedTarget
			set(t, reflect.ValueOf(&one).Elem().Field(i), text)
			set(t, reflect.ValueOf(&target).Elem().Field(i), text)
			same(one, one.append(nil), encode(one))
			same(target, target.append(nil), encode(target))
		}
		var spec storedSpec
		same(spec, spec.append(nil), encode(spec))
		for i := range reflect.TypeOf(spec).NumField() {
			var one storedSpec
			set(t, reflect.ValueOf(&one).Elem().Field(i), text)
			set(t, reflect.ValueOf(&spec).Elem().Field(i), text)
			same(one, one.append(nil), encode(one))
			same(spec, spec.append(nil), encode(spec))
		}
	}
}

// set gives a field a value that is not zero.
func set(t *testing.T, f reflect.Value, text string) {
	t.Helper()
	switch f.Kind() {
	case reflect.String:
		f.SetString(text)
	case reflect.Int, reflect.Int64:
		f.SetInt(-1 << 60)
	case reflect.Bool:
		f.SetBool(true)
	case reflect.Map:
		f.Set(reflect.ValueOf(map[string]string{text: text}))
	case reflect.Pointer:
		f.Set(reflect.ValueOf(new(time.Time)))
	case reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
	default:
		t.Fatalf("no value for a %s", f.Type())
	}
}

// filled fails where the test's own value leaves a field out.
func filled(t *testing.T, v any) {
	t.Helper()
	x := reflect.ValueOf(v)
	for i := range x.NumField() {
		if x.Field(i).IsZero() {
			t.Errorf("%T.%s is not in the test", v, x.Type().Field(i).Name)
		}
	}
}

func TestCursors(t *testing.T) {
	at, id := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), [16]byte{1, 15: 2}
	if gotAt, gotID, err := DecodeCursor(EncodeCursor(at, id)); err != nil || !gotAt.Equal(at) || gotID != id {
		t.Errorf("got %v, %v, %v", gotAt, gotID, err)
	}
	for _, bad := range []string{"", "x", "!!!!", EncodeCursor(at, id) + "AAAA"} {
		if _, _, err := DecodeCursor(bad); !errors.Is(err, ErrCursor) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestMigrations(t *testing.T) {
	files := fstest.MapFS{"m/0001_first.sql": {Data: []byte("a")}, "m/0002_second_step.sql": {Data: []byte("b")}, "m/notes.txt": {}}
	all, err := Migrations(files, "m")
	if err != nil || len(all) != 2 || all[1].Version != 2 || all[1].Name != "second step" || all[0].Sum == all[1].Sum {
		t.Fatalf("got %+v, %v", all, err)
	}
	done := []Applied{{Version: 1, Sum: all[0].Sum}}
	if got, err := PendingMigrations(all, done); err != nil || len(got) != 1 || got[0].Version != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := Outdated(all, done); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "carillon migrate up") {
		t.Errorf("a database that is behind: %v", err)
	}
	done = append(done, Applied{Version: 2, Sum: all[1].Sum})
	if err := Outdated(all, done); err != nil {
		t.Errorf("a database that is as it should be: %v", err)
	}
	for oldest, fine := range map[int]bool{1: true, 2: true, 3: false} {
		ahead := append(slices.Clone(done), Applied{Version: 3, Name: "later", Sum: "newer", Oldest: oldest})
		got, err := PendingMigrations(all, ahead)
		if fine != (err == nil) || !fine && (!errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "0003 (later)")) || len(got) != 0 {
			t.Errorf("a database that is ahead and works with %d: %+v, %v", oldest, got, err)
		}
		if steps := Steps(all, ahead); len(steps) != 3 || steps[2].SQL != "" || steps[2].Name != "later" || steps[2].Rolling != (oldest == 1 || oldest == 2) {
			t.Errorf("steps: %+v", steps)
		}
	}
	if _, err := PendingMigrations(all, []Applied{{Version: 1, Sum: "edited"}}); !errors.Is(err, ErrSchema) {
		t.Errorf("an edited step: %v", err)
	}
	rolling := fstest.MapFS{"m/0001_first.sql": {}, "m/0002_more.sql": {Data: []byte("-- More.\n-- works with: 0001\nx")}}
	if all, err := Migrations(rolling, "m"); err != nil || all[0].Oldest != 1 || all[1].Oldest != 1 {
		t.Errorf("got %+v, %v", all, err)
	}
	if _, err := Migrations(fstest.MapFS{"m/0001_first.sql": {Data: []byte("-- works with: 0001\n")}}, "m"); err == nil {
		t.Error("a step works with itself only, and says so as if that were something")
	}
	for _, name := range []string{"m/0003_gap.sql", "m/second.sql", "m/000x_y.sql"} {
		if _, err := Migrations(fstest.MapFS{"m/0001_first.sql": {}, name: {}}, "m"); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
