package cli

import (
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

func TestMemoryWords(t *testing.T) {
	for want, m := range map[string]client.Memory{
		"–":                   {},
		"512 B":               {MemoryUsed: new(int64(512))},
		"1.5 GiB of 512 GiB":  {MemoryUsed: new(int64(3 << 29)), MemoryLimit: new(int64(512 << 30))},
		"100 MiB of 2048 TiB": {MemoryUsed: new(int64(100 << 20)), MemoryLimit: new(int64(2 << 50))},
	} {
		if got := memoryWords(m, " of "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
