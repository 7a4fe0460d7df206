package telemetry

import "testing"

// Whatever a caller sends as its trace, it is passed over, or it is passed on as it came but for flags that are not known.
func FuzzTraceparent(f *testing.F) {
	for _, text := range []string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sc := parse(text)
		if !sc.IsValid() {
			return
		}
		again := parse(format(sc))
		if again.TraceID() != sc.TraceID() || again.SpanID() != sc.SpanID() || again.IsSampled() != sc.IsSampled() {
			t.Errorf("%q became %q", text, format(sc))
		}
	})
}
