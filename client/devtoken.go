package client

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// maxDevToken is the most bytes read from a token file.
const maxDevToken = 256

// DevTokenFile returns the file in which 'carillon dev' leaves its token for other programs of the same user. addr is
// the address at which it listens, such as 127.0.0.1:8080.
func DevTokenFile(address string) (string, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return "", errors.New("want an address of this machine's loopback, with its port")
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	name := strings.NewReplacer(":", "_", "[", "", "]", "").Replace(at.String())
	return filepath.Join(dir, "carillon", "dev", name), nil
}

// DevToken returns the token of the 'carillon dev' that the same user runs at a server's address, such as
// http://localhost:8080; "" if there is none. It never returns one for a server on another machine. Pass it to New as
// an API key.
func DevToken(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	hosts := []string{u.Hostname()}
	if strings.EqualFold(u.Hostname(), "localhost") {
		hosts = []string{"127.0.0.1", "::1"}
	}
	for _, host := range hosts {
		file, err := DevTokenFile(net.JoinHostPort(host, port))
		if err != nil {
			continue
		}
		if text, err := readSmall(file); err == nil {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

func readSmall(file string) (string, error) {
	is, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if !is.Mode().IsRegular() || is.Size() > maxDevToken {
		return "", errors.New("not a token's file")
	}
	text, err := os.ReadFile(file)
	return string(text), err
}
