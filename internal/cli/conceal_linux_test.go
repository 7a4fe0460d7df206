package cli

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A secret among the arguments does not stay where every user of the machine can read it.
func TestASecretArgumentIsConcealed(t *testing.T) {
	const secret = "crn_0123456789abcdef"
	if os.Getenv("CARILLON_TEST_CONCEAL") == "" {
		c := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v", "--", "--token="+secret, secret)
		c.Env = append(os.Environ(), "CARILLON_TEST_CONCEAL=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	mine := strings.Clone(secret)
	conceal(mine)
	shown, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(shown, []byte(secret)) || !bytes.Contains(shown, []byte("--token=xxxxxxxxxxxxxxxxxxxx\x00xxxx")) || mine != secret {
		t.Errorf("the arguments are %q", shown)
	}
	conceal("")
	os.Args = append(os.Args, "literal-in-memory-that-cannot-be-written")
	conceal("literal-in-memory-that-cannot-be-written")
}
