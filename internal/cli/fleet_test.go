package cli

import (
	"strconv"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

func TestMemoryWords(t *testing.T) {
	for want, m := range map[string]client.Memory{
		"-":                   {},
		"512 B":               {MemoryUsed: new(int64(512))},
		"1.5 GiB of 512 GiB":  {MemoryUsed: new(int64(3 << 29)), MemoryLimit: new(int64(512 << 30))},
		"100 MiB of 2048 TiB": {MemoryUsed: new(int64(100 << 20)), MemoryLimit: new(int64(2 << 50))},
	} {
		if got := memoryWords(m, " of "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// An unknown command is named, though a flag behind it is unknown, too.
func TestUnknownCommandWithAFlag(t *testing.T) {
	for _, args := range [][]string{{"jbo", "--server", "http://127.0.0.1:1"}, {"job", "lits", "--since", "1h"}} {
		var out, said strings.Builder
		code := Main(args, &out, &said)
		if want := "unknown command " + strconv.Quote(args[len(args)-3]); code != 2 || !strings.Contains(said.String(), want) {
			t.Errorf("%v: %d %s", args, code, said.String())
		}
	}
}

func TestFieldsOfSeveralLines(t *testing.T) {
	var out strings.Builder
	s := &session{output: "table", out: &out}
	if err := one(s, view[int]{}, 1, []field{{"Id", "7"}, {"Error", "PANIC: x\n\n\tat\x1b[31m y\r\nz\n"}}); err != nil {
		t.Fatal(err)
	}
	if want := "Id     7\nError  PANIC: x\n\n        at\\x1b[31m y\n       z\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

// A deletion that nobody confirmed is not mistaken for a wrong command.
func TestUnconfirmed(t *testing.T) {
	var said strings.Builder
	err := (&session{in: strings.NewReader("")}).confirm(write{}, "delete the job x", "x")
	if code := exit(nil, err, &said); code != 2 || !strings.Contains(said.String(), "--yes") || strings.Contains(said.String(), "--help") {
		t.Errorf("%d %s", code, said.String())
	}
}
