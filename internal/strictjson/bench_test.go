package strictjson

import (
	"encoding/json"
	"testing"
)

func benchmark[T any](b *testing.B, doc []byte) {
	for _, lib := range []struct {
		name      string
		unmarshal func([]byte, any) error
	}{
		{"strictjson", Unmarshal},
		{"encoding_json", json.Unmarshal},
	} {
		b.Run(lib.name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				var v T
				if err := lib.unmarshal(doc, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkJob(b *testing.B)     { benchmark[job](b, []byte(jobBody)) }
func BenchmarkJobs10k(b *testing.B) { benchmark[[]job](b, jobList(10_000)) }
func BenchmarkRaw(b *testing.B)     { benchmark[json.RawMessage](b, []byte(jobBody)) }
func BenchmarkAny(b *testing.B)     { benchmark[any](b, []byte(jobBody)) }
