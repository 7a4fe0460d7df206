package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/carillon-jobs/carillon/internal/access"
	"github.com/carillon-jobs/carillon/internal/config"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/seal"
	"github.com/carillon-jobs/carillon/internal/secret"
	"github.com/carillon-jobs/carillon/internal/secret/backend"
	"github.com/carillon-jobs/carillon/internal/sign"
)

// unlock reads the keys that encrypt secrets, and checks that they decrypt what is stored. From then on, secrets are
// removed from the log.
func (r *running) unlock(ctx context.Context, store engine.Store) (err error) {
	file := r.Config.SecretsKeyFile
	if r.Dev && file == "" && r.Config.SecretsKey == "" {
		if file, err = ownKeyFile(r.Config.Database); err != nil {
			return err
		}
	}
	if r.ring, err = readRing(file, r.Config.SecretsKey); err != nil {
		return err
	}
	r.vault = secret.New(store, r.ring)
	backends, err := secretBackends(r.Config)
	if err != nil {
		return err
	}
	r.vault.Attach(backends, r.Config.SecretsCache, store)
	r.log = slog.New(r.vault.Handler(r.log.Handler()))
	if u, err := url.Parse(r.Config.Vault.Address); err == nil && u.Scheme == "http" && !thisMachine(u.Hostname()) {
		r.log.Warn("secrets travel from Vault to this server unencrypted; set secrets.vault_address to an https address", "address", r.Config.Vault.Address)
	}
	return r.vault.Check(ctx)
}

// thisMachine reports whether a host is the one that this process runs on.
func thisMachine(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// secretBackends returns the backends that keep secrets outside the store, by the prefix of their references.
func secretBackends(c config.Config) (map[string]secret.Backend, error) {
	out := map[string]secret.Backend{}
	if c.SecretsFiles != "" {
		if info, err := os.Stat(c.SecretsFiles); err != nil || !info.IsDir() {
			return nil, config.Mistakes{{Key: "secrets.files", Value: c.SecretsFiles, Want: "a folder that can be read", From: "as set"}}
		}
		out["files"] = backend.Files{Folder: c.SecretsFiles}
	}
	if v := c.Vault; v.Address != "" {
		b, err := backend.NewVault(backend.VaultConfig{
			Address: v.Address, Mount: strings.Trim(v.Mount, "/"), Prefix: v.Prefix, Namespace: v.Namespace, CAFile: v.CAFile, Auth: v.Auth, AuthPath: v.AuthPath, Token: v.Token, Role: v.Role, Credential: v.Credential,
		})
		if err != nil {
			return nil, config.Mistakes{{Key: "secrets.vault_ca_file", Value: v.CAFile, Want: "a file of certificates: " + err.Error(), From: "as set"}}
		}
		out["vault"] = b
	}
	return out, nil
}

// readRing reads keys from a file or a setting; nil if there is neither.
func readRing(file, text string) (*seal.Ring, error) {
	key, value, from := "secrets.key", "(not shown)", "as set"
	if file != "" {
		key, value, from = "secrets.key_file", file, "file "+file
		data, err := readKeyFile(file)
		if err != nil {
			return nil, err
		}
		text = data
	} else {
		text = strings.ReplaceAll(text, ",", "\n")
	}
	if text == "" && file == "" {
		return nil, nil
	}
	keys, err := seal.ParseKeys(text)
	if err != nil {
		return nil, config.Mistakes{{Key: key, Value: value, Want: "keys in base64, one per line: " + err.Error(), From: from}}
	}
	return seal.NewRing(keys...)
}

// readKeyFile reads a file that only its owner may read.
func readKeyFile(file string) (string, error) {
	mistake := func(want string) error {
		return config.Mistakes{{Key: "secrets.key_file", Value: file, Want: want, From: "as set"}}
	}
	info, err := os.Stat(file)
	if err != nil {
		return "", mistake("a file that can be read: " + err.Error())
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o077 != 0 && !lent(info) {
		return "", mistake(fmt.Sprintf("a file that only its owner may read: it has mode %04o; run chmod 600", mode))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", mistake("a file that can be read: " + err.Error())
	}
	return string(data), nil
}

// lent reports whether a file belongs to the superuser, is readable by this process's user and writable by nobody
// else. systemd does that with credentials (by an access list, which shows as the group's bits) and Kubernetes with
// the files of a Secret.
func lent(info fs.FileInfo) bool {
	return info.Mode().Perm()&^0o640 == 0 && os.Getuid() > 0 && ownedByRoot(info)
}

// ownKeyFile returns the key file beside an embedded store, and creates it if there is none.
func ownKeyFile(database string) (string, error) {
	file := filepath.Join(filepath.Dir(strings.TrimPrefix(database, "sqlite:")), "secrets.key")
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return file, nil
	}
	if err != nil {
		return "", fmt.Errorf("make a key for secrets: %w", err)
	}
	_, err = f.WriteString("# The key that encrypts secrets in Carillon. Without it they are lost.\n" + seal.NewKey() + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(fmt.Errorf("make a key for secrets: %w", err), os.Remove(file))
	}
	return file, nil
}

// Rekey encrypts every stored secret, including those that sign callbacks, under the first key in the settings, and
// returns how many were under another. It reports to progress how many are done.
func Rekey(ctx context.Context, c config.Config, progress func(done int)) (n int, err error) {
	err = sealed(ctx, c, func(store engine.Store, ring *seal.Ring) error {
		if err := alone(ctx, store); err != nil {
			return fmt.Errorf("bring the schema up to date: %w; stop them, or run 'carillon migrate up --force' of this version; nothing was changed", err)
		}
		if err := upToDate(ctx, store); err != nil {
			return err
		}
		if n, err = secret.New(store, ring).Rekey(ctx, progress); err != nil {
			return err
		}
		more, err := sign.Rekey(ctx, store, ring)
		n += more
		progress(n)
		return err
	})
	return n, err
}

// Rekeying returns how many secrets Rekey would re-encrypt, and checks that each can be decrypted. It changes
// nothing.
func Rekeying(ctx context.Context, c config.Config) (n int, err error) {
	err = sealed(ctx, c, func(store engine.Store, ring *seal.Ring) error {
		if err := store.CheckSchema(ctx); err != nil {
			return err
		}
		if n, err = secret.New(store, ring).Stale(ctx); err != nil {
			return err
		}
		more, err := sign.Stale(ctx, store, ring)
		n += more
		return err
	})
	return n, err
}

// sealed opens the database and reads the keys, of which there must be at least one.
func sealed(ctx context.Context, c config.Config, do func(engine.Store, *seal.Ring) error) error {
	ring, err := readRing(c.SecretsKeyFile, c.SecretsKey)
	if err != nil {
		return err
	}
	if ring == nil {
		return config.Mistakes{{Key: "secrets.key_file", Want: "the file of the new key and, behind it, the old ones; or CARILLON_SECRETS_KEY", From: "not set"}}
	}
	if _, err := Steps(ctx, c); err != nil { // opening it would make it
		return err
	}
	store, err := OpenStore(ctx, c.Database, StoreOptions{AllowAsyncCommit: c.AllowAsyncCommit, AppRole: c.AppRole})
	if err != nil {
		return err
	}
	defer store.Close()
	return do(store, ring)
}

// openCurrent opens an existing database that has the schema of this version.
func openCurrent(ctx context.Context, c config.Config) (engine.Store, error) {
	if _, err := Steps(ctx, c); err != nil { // opening it would make it
		return nil, err
	}
	store, err := OpenStore(ctx, c.Database, StoreOptions{AllowAsyncCommit: c.AllowAsyncCommit, AppRole: c.AppRole})
	if err != nil {
		return nil, err
	}
	if err := store.CheckSchema(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// CheckDatabase checks whether a database can be used, and does not change it.
func CheckDatabase(ctx context.Context, c config.Config) error {
	store, err := openCurrent(ctx, c)
	if err != nil {
		return err
	}
	return store.Close()
}

// RecoverKey creates a key of role system directly in the database, for when all keys are lost. It writes an audit
// entry.
func RecoverKey(ctx context.Context, c config.Config) (id, key string, err error) {
	store, err := openCurrent(ctx, c)
	if err != nil {
		return "", "", err
	}
	defer store.Close()
	now, err := store.Now(ctx)
	if err != nil {
		return "", "", err
	}
	return access.Recover(ctx, store, hostname(), now)
}
