package engine

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// What a memo reads, the first time or again, is what the decoders read.
func TestMemo(t *testing.T) {
	var spec storedSpec
	var target storedTarget
	for _, v := range []reflect.Value{reflect.ValueOf(&spec).Elem(), reflect.ValueOf(&target).Elem()} {
		for i := range v.NumField() {
			set(t, v.Field(i), "text")
		}
	}
	columns := job.Job{
		ID: job.ID{1}, Tenant: "t", State: job.Active, NextRunAt: time.Unix(1, 0), Runs: 2, PausedTill: time.Unix(3, 0), PauseNote: "n",
		CreatedAt: time.Unix(4, 0), UpdatedAt: time.Unix(5, 0), Revision: 6,
		Definition: job.Definition{Key: "k", Name: "n", Payload: []byte("1"), Priority: 7, Tags: []string{"x"}, Schedule: job.Schedule{Type: job.Cron}},
	}
	var m Memo
	for range 2 {
		for _, x := range []struct{ spec, target []byte }{{encode(spec), encode(target)}, {[]byte("{}"), []byte(`{"k":"http"}`)}} {
			want, got := columns, columns
			var err error
			if want.Target, err = DecodeTarget(x.target); err != nil {
				t.Fatal(err)
			}
			if err := DecodeSpec(x.spec, &want); err != nil {
				t.Fatal(err)
			}
			if err := m.Decode(x.spec, x.target, &got); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
			}
		}
	}
	if len(m.jobs) != 2 {
		t.Errorf("it keeps %d", len(m.jobs))
	}
	for i := range 3 * maxMemos {
		if err := m.Decode(fmt.Appendf(nil, `{"c":"%d * * * *"}`, i), []byte(`{"k":"http"}`), &columns); err != nil || columns.Schedule.Cron != fmt.Sprint(i, " * * * *") {
			t.Fatal(columns.Schedule, err)
		}
	}
	if len(m.jobs) > maxMemos {
		t.Errorf("it keeps %d", len(m.jobs))
	}
	if err := m.Decode([]byte("{"), []byte("{}"), &columns); err == nil {
		t.Error("no error")
	}
}
