package cli

import (
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

const aPanic = "assignment to entry in nil map\n\nruntime.mapassign_faststr(0x1, 0x2)\n\t/usr/lib/go/src/runtime/map_faststr.go:205 +0x9c\n" +
	"example.com/shop/mail.(*Sender).Send(0xc000, {0x1, 0x2})\n\t/home/me/shop/mail/send.go:41 +0x1d\ngithub.com/carillon-jobs/carillon/worker.(*Worker).Execute(0xc)\n\t/go/worker/sdk.go:170 +0x2"

func TestHeadline(t *testing.T) {
	for message, want := range map[string]string{
		"":              "",
		"503 from a":    "503 from a",
		"first\nsecond": "first …",
		aPanic:          "assignment to entry in nil map (in mail.(*Sender).Send, send.go:41)",
		"oops\n\npanic({0x1})\n\t/go/panic.go:7\ngithub.com/carillon-jobs/carillon/worker.run()\n\t/go/sdk.go:1\n": "oops …",
	} {
		if got := headline(message); got != want {
			t.Errorf("%q: got %q, want %q", message, got, want)
		}
	}
}

// The last line of a command that waited is a line, not a stack.
func TestEndOfAPanicIsOneLine(t *testing.T) {
	err := endOf(client.Execution{ExecutionID: "x", Status: "FAILED", Error: &client.Error{Type: "PANIC", Message: aPanic}})
	first, _, _ := strings.Cut(err.Error(), "\n")
	if want := "the execution ended as FAILED: PANIC: assignment to entry in nil map (in mail.(*Sender).Send, send.go:41)"; first != want {
		t.Errorf("got %q, want %q", first, want)
	}
}
