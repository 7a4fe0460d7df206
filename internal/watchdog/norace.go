//go:build !race

package watchdog

const race = false
