package audit

import (
	"slices"
	"testing"
	"time"
)

func entries(from, n int64) []Entry {
	out := make([]Entry, n)
	for i := range out {
		out[i] = Entry{
			Seq: from + int64(i)*2, Tenant: "t", At: time.Unix(1000, 0), By: "ann", Role: "admin", Key: "k1", From: "192.0.2.1", Request: "r", Action: "job.create", Object: "j", Count: 1,
			Detail: []byte(`{"a":1}`),
		}
	}
	return out
}

func TestChain(t *testing.T) {
	at := time.Unix(2000, 0)
	es := entries(1, 3)
	one := Close(Seal{}, es, at)
	two := Close(one, entries(7, 2), at)
	if b := Verify(Seal{}, one, es); b != nil {
		t.Error(b)
	}
	if b := Verify(one, two, entries(7, 2)); b != nil {
		t.Error(b)
	}
	if one.First() != 1 || one.Last() != 5 || !slices.Equal(DecodeMarks(EncodeMarks(one.Marks)), one.Marks) {
		t.Errorf("%+v", one)
	}
	broken := func(name string, seal, seq int64, b *Broken) {
		t.Helper()
		if b == nil || b.Seal != seal || b.Seq != seq {
			t.Errorf("%s: %+v, want seal %d, entry %d", name, b, seal, seq)
		}
	}
	// Whatever field is changed, it shows.
	for name, change := range map[string]func(*Entry){
		"at": func(e *Entry) { e.At = e.At.Add(time.Microsecond) }, "by": func(e *Entry) { e.By = "bob" }, "role": func(e *Entry) { e.Role = "viewer" },
		"key": func(e *Entry) { e.Key = "" }, "from": func(e *Entry) { e.From = "192.0.2.2" }, "request": func(e *Entry) { e.Request = "" }, "action": func(e *Entry) { e.Action = "job.delete" },
		"object": func(e *Entry) { e.Object = "k" }, "count": func(e *Entry) { e.Count = 2 }, "detail": func(e *Entry) { e.Detail = nil }, "tenant": func(e *Entry) { e.Tenant = "u" },
		"moved": func(e *Entry) { e.By, e.Key = "annk1", "" },
	} {
		changed := entries(1, 3)
		change(&changed[1])
		broken(name, 1, 3, Verify(Seal{}, one, changed))
	}
	broken("removed", 1, 3, Verify(Seal{}, one, []Entry{es[0], es[2]}))
	broken("the last removed", 1, 5, Verify(Seal{}, one, es[:2]))
	broken("all removed", 1, 1, Verify(Seal{}, one, nil))
	broken("put in", 1, 2, Verify(Seal{}, one, slices.Insert(slices.Clone(es), 1, Entry{Seq: 2})))
	broken("put in at the end", 1, 6, Verify(Seal{}, one, append(slices.Clone(es), Entry{Seq: 6})))
	broken("a seal removed", 1, 0, Verify(Seal{}, two, entries(7, 2)))
	other := one
	other.At = at.Add(time.Second)
	broken("a seal changed", 1, 0, Verify(Seal{}, other, es))
	forged := Close(Seal{}, changedBy(es), at)
	broken("a seal and its entries changed", 2, 0, Verify(forged, two, entries(7, 2)))
	empty := one
	empty.Marks = nil
	broken("an empty seal", 1, 0, Verify(Seal{}, empty, nil))
}

func changedBy(es []Entry) []Entry {
	out := slices.Clone(es)
	out[0].By = "mallory"
	return out
}

func TestMerge(t *testing.T) {
	entry := func(key, request, object string, count int) *Entry {
		return &Entry{Tenant: "t", By: "ann", Key: key, Action: "job.create", Request: request, Object: object, Count: count, Detail: []byte(`{"after":{"name":"n"}}`)}
	}
	all := []*Entry{entry("k1", "r1", "a", 1), entry("k2", "r2", "b", 5), entry("k1", "r3", "c", 2), entry("k1", `r"4`, "d", 1)}
	got := Merge(all)
	if len(got) != 2 || got[0].Count != 4 || got[0].Object != "a" || got[1].Count != 5 || got[1].Others() != nil {
		t.Fatalf("%+v", got)
	}
	if others := got[0].Others(); !slices.Equal(others, []Other{{"r3", "c", 2}, {`r"4`, "d", 1}}) {
		t.Errorf("%+v of %s", others, got[0].Detail)
	}
	if all[0].Count != 1 || all[0].Others() != nil {
		t.Error("the caller's was changed")
	}
	bare := Merge([]*Entry{{Request: "r1", Object: "a", Count: 1}, {Request: "r2", Object: "b", Count: 1}})
	if others := bare[0].Others(); len(bare) != 1 || !slices.Equal(others, []Other{{"r2", "b", 1}}) {
		t.Errorf("%+v", others)
	}
	var many []*Entry
	for range 2*maxOthers + 3 {
		many = append(many, entry("k", "r", "o", 1))
	}
	n := 0
	for _, e := range Merge(many) {
		n += 1 + len(e.Others())
	}
	if n != len(many) {
		t.Errorf("%d of %d", n, len(many))
	}
}
