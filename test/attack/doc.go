// Package attack sends a running server what an attacker would send, and compares each answer with the one that is
// expected: no credential and forged ones, another tenant's ids, malformed and oversized input, callbacks to addresses
// that are off limits, ways to read a secret back, a compromised worker, a hostile page in the browser, another user
// of the machine, and a command that looks for the keys of the server.
//
// It is a black box: it starts the built binary and uses nothing but its ports and its command line. Everything stays
// on loopback. `make attack` prints one line for each attack; a line whose answer is not the expected one fails.
package attack
