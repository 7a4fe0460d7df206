package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsInFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	url := file("database", "postgres://u:geheim@h/x\n")
	c, all, err := Explain(Default(), nil, []string{"CARILLON_DATABASE_FILE=" + url, "CARILLON_SECRETS_KEY_FILE=" + dir}, "")
	if err != nil || c.Database != "postgres://u:geheim@h/x" || c.SecretsKeyFile != dir || c.SecretsKey != "" {
		t.Fatalf("got %+v, %v", c, err)
	}
	for _, s := range all {
		if s.Name == "database" && (strings.Contains(s.Value, "geheim") || !strings.Contains(s.From, "CARILLON_DATABASE_FILE")) {
			t.Errorf("shown: %+v", s)
		}
	}
	if c, err := Load(Default(), map[string]string{"database": "sqlite:x"}, []string{"CARILLON_DATABASE_FILE=" + url}, ""); err != nil || c.Database != "sqlite:x" {
		t.Errorf("a flag comes first: %q, %v", c.Database, err)
	}
	for say, env := range map[string][]string{
		"not both":             {"CARILLON_DATABASE_FILE=" + url, "CARILLON_DATABASE=sqlite:x"},
		"no such file":         {"CARILLON_DATABASE_FILE=" + filepath.Join(dir, "none")},
		"is empty":             {"CARILLON_DATABASE_FILE=" + file("empty", "\n")},
		"more than one line":   {"CARILLON_DATABASE_FILE=" + file("two", "sqlite:x\nsqlite:geheim\n")},
		"more than 65536":      {"CARILLON_DATABASE_FILE=" + file("long", strings.Repeat("geheim", 20_000))},
		"postgres://USER@HOST": {"CARILLON_DATABASE_FILE=" + file("wrong", "mysql://u:geheim@h")},
		"32 characters":        {"CARILLON_BOOTSTRAP_KEY_FILE=" + file("short", "geheim")},
	} {
		_, err := Load(Default(), nil, env, "")
		var wrong Mistakes
		if !errors.As(err, &wrong) || len(wrong) != 1 || !strings.Contains(err.Error(), say) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: got %v", say, err)
		}
	}
	if got := Strangers([]string{"CARILLON_DATABASE_FILE=x", "CARILLON_TOKEN_FILE=x"}); len(got) > 0 {
		t.Errorf("got %q", got)
	}
}

func TestTheKeyOfWorkersIsAnother(t *testing.T) {
	key := strings.Repeat("k", 40)
	if _, err := Load(Default(), nil, []string{"CARILLON_BOOTSTRAP_KEY=" + key, "CARILLON_BOOTSTRAP_WORKER_KEY=" + key}, ""); err == nil || strings.Contains(err.Error(), key) {
		t.Errorf("got %v", err)
	}
}
