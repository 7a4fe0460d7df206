//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package cli

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// hidden reads a line from a terminal without echo.
func hidden(f *os.File) (string, error) {
	fd := int(f.Fd())
	old, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return "", err
	}
	quiet := *old
	quiet.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, setTermios, &quiet); err != nil {
		return "", err
	}
	restore := func() { _ = unix.IoctlSetTermios(fd, setTermios, old) } // a terminal that has gone needs no echo
	defer restore()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, unix.SIGTERM)
	read := make(chan struct{})
	defer close(read)
	defer signal.Stop(stop)
	go func() { // if stopped here, the user gets their terminal back as it was
		select {
		case <-stop:
			restore()
			fmt.Fprintln(os.Stderr)
			os.Exit(stopped)
		case <-read:
		}
	}()
	return bufio.NewReader(f).ReadString('\n')
}

// terminalWidth returns how many columns a terminal has; 0 if unknown.
func terminalWidth(f *os.File) (columns, rows int) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return int(w.Col), int(w.Row)
}

// keystrokes makes a terminal deliver each key at once, without echo, until restore.
func keystrokes(f *os.File) (restore func(), err error) {
	fd := int(f.Fd())
	old, err := unix.IoctlGetTermios(fd, getTermios)
	if err != nil {
		return nil, err
	}
	eager := *old
	eager.Lflag &^= unix.ECHO | unix.ICANON
	if err := unix.IoctlSetTermios(fd, setTermios, &eager); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(fd, setTermios, old) }, nil
}
