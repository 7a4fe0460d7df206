package main

import (
	"bytes"
	"os"
	"testing"
)

// The wrappers are those of the ports as they are.
func TestAroundIsUpToDate(t *testing.T) {
	want, err := generate("..")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile("../around.go"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("around.go is not what the ports make (%v); run go generate ./internal/engine", err)
	}
}
