package config

import (
	"maps"
	"testing"
)

func TestTracing(t *testing.T) {
	file := write(t, "[tracing]\nendpoint = \"http://localhost:4318\"\nsample = 0.25\nheaders = \"x-key=1, y=2=3\"\n")
	c, err := Load(Default(), nil, nil, file)
	if err != nil {
		t.Fatal(err)
	}
	if c.Tracing.Share() != 0.25 || !maps.Equal(c.Tracing.Pairs(), map[string]string{"x-key": "1", "y": "2=3"}) || c.Tracing.Protocol != "http" {
		t.Errorf("got %+v", c.Tracing)
	}
	if d := Default().Tracing; d.Share() != 1 || d.Pairs() != nil || d.Endpoint != "" {
		t.Errorf("nobody said so: %+v", d)
	}
	for _, no := range []string{"-0.1", "1.1", "NaN", "half", "Inf"} {
		if _, err := Load(Default(), map[string]string{"tracing.sample": no}, nil, ""); err == nil {
			t.Errorf("a share of %s is taken", no)
		}
	}
}
