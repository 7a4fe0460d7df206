package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// storedContext is a server and a key that are stored under a name.
type storedContext struct {
	Name    string   `json:"name"`
	Servers []string `json:"servers"`
	Token   string   `json:"token,omitempty"`
	Tenant  string   `json:"tenant,omitempty"`

	Cert string `json:"tls_cert,omitempty"`
	Key  string `json:"tls_key,omitempty"`
	CA   string `json:"tls_ca,omitempty"`
}

// contexts is the file of contexts.
type contexts struct {
	Current  string          `json:"current,omitempty"`
	Contexts []storedContext `json:"contexts"`
}

// contextsFile returns the path of the contexts file, in the user's folder of settings.
func contextsFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find the settings folder: %w", err)
	}
	return filepath.Join(dir, "carillon", "contexts.json"), nil
}

// loadContexts reads the contexts; none if there is no file, or no place for one.
func loadContexts() (k contexts, err error) {
	file, err := contextsFile()
	if err != nil {
		return k, nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &k)
	}
	if err != nil {
		return k, fmt.Errorf("read the contexts: %w; repair or remove %s", err, file)
	}
	return k, nil
}

// save writes the contexts atomically, readable only by their owner.
func (k contexts) save() error {
	file, err := contextsFile()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("save the contexts: %w", err)
	}
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	next, err := os.CreateTemp(filepath.Dir(file), ".contexts-*") // 0600
	if err != nil {
		return fmt.Errorf("save the contexts: %w", err)
	}
	defer os.Remove(next.Name())
	_, err = next.Write(append(data, '\n'))
	if err = errors.Join(err, next.Sync(), next.Close()); err == nil {
		err = os.Rename(next.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("save the contexts: %w", err)
	}
	return nil
}

func (k *contexts) find(name string) *storedContext {
	i := slices.IndexFunc(k.Contexts, func(x storedContext) bool { return x.Name == name })
	if i < 0 || name == "" {
		return nil
	}
	return &k.Contexts[i]
}

// put adds or replaces a context, and makes it the current one.
func (k *contexts) put(x storedContext) {
	k.Current = x.Name
	if old := k.find(x.Name); old != nil {
		*old = x
		return
	}
	k.Contexts = append(k.Contexts, x)
}

func contextNames() []string {
	k, err := loadContexts()
	if err != nil {
		return nil
	}
	var names []string
	for _, x := range k.Contexts {
		names = append(names, x.Name)
	}
	return names
}
