package cli

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"unsafe"
)

// conceal overwrites a secret in the arguments of this process, which every user of the machine can read.
func conceal(secret string) {
	if secret == "" {
		return
	}
	secret = strings.Clone(secret) // it may be the very memory that is overwritten
	from, to := argumentMemory()
	for _, arg := range os.Args {
		at := strings.Index(arg, secret)
		start := uintptr(unsafe.Pointer(unsafe.StringData(arg)))
		if at < 0 || start < from || start+uintptr(len(arg)) > to { // a test's own, say, which may not be writable
			continue
		}
		b := unsafe.Slice(unsafe.StringData(arg), len(arg))
		copy(b[at:], bytes.Repeat([]byte("x"), len(secret)))
	}
}

// argumentMemory returns where the kernel has put this process's arguments; 0, 0 if unknown.
func argumentMemory() (from, to uintptr) {
	data, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0, 0
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])) // from the third field on
	const argStart, argEnd = 48 - 3, 49 - 3
	if len(fields) <= argEnd {
		return 0, 0
	}
	a, err := strconv.ParseUint(fields[argStart], 10, 64)
	b, bad := strconv.ParseUint(fields[argEnd], 10, 64)
	if err != nil || bad != nil {
		return 0, 0
	}
	return uintptr(a), uintptr(b)
}
