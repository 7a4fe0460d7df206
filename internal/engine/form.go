package engine

import "strconv"

// form encodes a stored form of simple values like encode does, but several times faster: each created job has two.
type form struct {
	b     []byte
	begun int  // where the form begins
	give  bool // it contains something that is left to encode
}

// append appends the target's form.
func (s *storedTarget) append(b []byte) []byte {
	f := form{b: b, begun: len(b), give: len(s.Headers)+len(s.Status)+len(s.Command)+len(s.Env) > 0}
	f.text("k", string(s.Kind), true)
	f.int("t", int64(s.Timeout))
	f.text("u", s.URL, false)
	f.text("m", s.Method, false)
	f.text("eb", s.Body, false)
	f.truth("f", s.Follow)
	f.text("hk", s.Handler, false)
	f.text("w", s.Work, false)
	f.int("d", int64(s.Length))
	f.int("fa", int64(s.Fails))
	f.int("st", int64(s.Stall))
	f.int("tt", int64(s.Total))
	f.text("a", s.Artifact, false)
	f.text("ep", s.Entrypoint, false)
	f.int("v", int64(s.Version))
	if f.give {
		return append(b, encode(*s)...)
	}
	return f.end()
}

// append appends the spec's form.
func (s *storedSpec) append(b []byte) []byte {
	f := form{b: b, begun: len(b), give: s.At != nil || s.Start != nil || s.End != nil || s.Paused != nil || s.Resumed != nil || len(s.Labels)+len(s.Parents) > 0}
	f.text("desc", s.Description, false)
	f.int("r", int64(s.Retries))
	f.text("b", string(s.Backoff), false)
	f.int("i", int64(s.Initial))
	f.int("x", int64(s.Max))
	f.text("o", s.Owner, false)
	f.text("rb", s.Runbook, false)
	f.text("q", s.Queue, false)
	f.int("mc", int64(s.AtOnce))
	f.text("ck", s.GroupBy, false)
	f.int("rc", int64(s.Count))
	f.int("rp", int64(s.Per))
	f.int("ru", int64(s.Burst))
	f.text("uk", s.Unique, false)
	f.int("ex", int64(s.Expires))
	f.int("ar", int64(s.Redrive))
	f.int("kd", int64(s.Kept))
	f.int("kf", int64(s.KeptIll))
	f.int("tt", int64(s.Total))
	f.int("gk", int64(s.GroupKey))
	f.text("c", s.Cron, false)
	f.text("z", s.Zone, false)
	f.text("dy", s.Day, false)
	f.int("ev", int64(s.Every))
	f.int("j", int64(s.Jitter))
	f.int("mr", s.MaxRuns)
	f.text("cal", s.Calendar, false)
	f.text("ov", string(s.Overlap), false)
	f.text("cu", string(s.CatchUp), false)
	f.int("cl", int64(s.CatchMax))
	f.text("dif", s.If, false)
	if f.give {
		return append(b, encode(*s)...)
	}
	return f.end()
}

func (f *form) name(n string) {
	sep := byte(',')
	if len(f.b) == f.begun {
		sep = '{'
	}
	f.b = append(append(append(f.b, sep, '"'), n...), '"', ':')
}

// text writes a text; an empty one only if required.
func (f *form) text(n, v string, must bool) {
	if v == "" && !must {
		return
	}
	f.name(n)
	f.b = append(f.b, '"')
	for i := range len(v) {
		if c := v[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			f.give = true
			return
		}
	}
	f.b = append(append(f.b, v...), '"')
}

func (f *form) int(n string, v int64) {
	if v != 0 {
		f.name(n)
		f.b = strconv.AppendInt(f.b, v, 10)
	}
}

func (f *form) truth(n string, v bool) {
	if v {
		f.name(n)
		f.b = append(f.b, "true"...)
	}
}

func (f *form) end() []byte {
	if len(f.b) == f.begun {
		return append(f.b, "{}"...)
	}
	return append(f.b, '}')
}
