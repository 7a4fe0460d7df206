package config

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-jobs/carillon/internal/blob/location"
)

// Setting is a key with its value and source.
type Setting struct {
	Key
	Value string // as a file would write it; of a secret "(not shown)", or "" if there is none
	From  string // "default", or the flag, the variable or the line of the file
}

// hidden is shown in place of a secret value.
const hidden = "(not shown)"

// Load reads the settings: flags (by key) take precedence over the environment, the environment over the file (path
// "" for none), and the file over the given defaults.
func Load(base Config, flags map[string]string, env []string, path string) (Config, error) {
	c, _, err := Explain(base, flags, env, path)
	return c, err
}

// Explain is Load, and also returns where each setting comes from.
func Explain(base Config, flags map[string]string, env []string, path string) (Config, []Setting, error) {
	c := base
	file, wrong := readFile(path)
	vars := map[string]string{}
	for _, e := range env {
		if name, v, ok := strings.Cut(e, "="); ok {
			vars[name] = v
		}
	}
	all := make([]Setting, 0, len(Keys))
	for _, k := range Keys {
		s := Setting{Key: k, From: "default"}
		var v string
		if line, given := file[k.Name]; given {
			delete(file, k.Name)
			from := fmt.Sprintf("%s, line %d", path, line.number)
			switch {
			case k.EnvOnly:
				wrong = append(wrong, Mistake{k.Name, hidden, "it in the environment, as " + k.Variable() + ": a file is read by too many", from})
			case !line.fits(k.Kind):
				wrong = append(wrong, Mistake{k.Name, k.quoted(line.value), k.Want + ", written as " + written[k.Kind] + ", not as " + line.kind, from})
			default:
				v, s.From = line.value, from
			}
		}
		if given := vars[k.Variable()]; given != "" {
			v, s.From = given, "environment "+k.Variable()
		}
		if path := vars[k.FileVariable()]; path != "" {
			given, mistake := k.inFile(path, vars[k.Variable()] != "")
			if mistake != nil {
				wrong = append(wrong, *mistake)
			} else {
				v, s.From = given, "file "+path+", which "+k.FileVariable()+" names"
			}
		}
		if given, ok := flags[k.Name]; ok {
			v, s.From = given, "flag --"+k.Flag()
		}
		if s.From != "default" && !k.set(&c, v) {
			wrong = append(wrong, Mistake{k.Name, k.quoted(v), k.Want, s.From})
		}
		s.Value = k.display(k.get(&c))
		all = append(all, s)
	}
	for name, line := range file {
		wrong = append(wrong, Mistake{name, strange(name, line.value), near(name), fmt.Sprintf("%s, line %d", path, line.number)})
	}
	wrong = append(wrong, contradictions(c)...)
	if len(wrong) == 0 {
		return c, all, nil
	}
	order := func(m Mistake) int {
		if i := slices.IndexFunc(Keys, func(k Key) bool { return k.Name == m.Key }); i >= 0 {
			return i
		}
		return len(Keys)
	}
	slices.SortStableFunc(wrong, func(a, b Mistake) int {
		if d := order(a) - order(b); d != 0 {
			return d
		}
		return strings.Compare(a.Key, b.Key)
	})
	return c, all, wrong
}

// largestSecret limits the size of a file with a secret.
const largestSecret = 64 << 10

// inFile returns the value of a key whose variable names a file; also reports that the value is in the environment,
// too.
func (k Key) inFile(path string, also bool) (string, *Mistake) {
	from := "environment " + k.FileVariable()
	if also {
		return "", &Mistake{k.Name, path, "either " + k.Variable() + " or " + k.FileVariable() + ", not both", from}
	}
	text, err := SecretFile(path)
	if err != nil {
		return "", &Mistake{k.Name, path, "the path of a file with the value: " + err.Error(), from}
	}
	return text, nil
}

// SecretFile reads the file of a secret: one line, without its end.
func SecretFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, largestSecret+1))
	text := strings.TrimRight(string(data), "\r\n")
	switch {
	case err != nil:
		return "", err
	case len(data) > largestSecret:
		return "", fmt.Errorf("it has more than %d bytes", largestSecret)
	case text == "":
		return "", errors.New("it is empty")
	case strings.ContainsAny(text, "\r\n\x00"):
		return "", errors.New("it has more than one line")
	}
	return text, nil
}

// quoted returns an invalid value as it may be shown: of a secret, nobody knows which part is sensitive.
func (k Key) quoted(v string) string {
	if k.Secret && v != "" || (k.Name == "callbacks.proxy" || k.Name == "blobs.url" || k.Name == "archive.url") && strings.Contains(v, "@") { // with a password, though there may be none
		return hidden
	}
	return v
}

// strange returns the value of an unknown key as it may be shown: it may be a secret whose key is mistyped.
func strange(name, v string) string {
	like := func(k Key) bool { return k.Secret && distance(name, k.Name) <= 3 }
	if slices.ContainsFunc(Keys, like) || suspicious.MatchString(name) || strings.Contains(v, "://") {
		return hidden
	}
	return v
}

var suspicious = regexp.MustCompile(`(?i)secret|key|token|pass|pwd|credential|database|dsn`)

// display returns a valid value as it may be shown: a database without its password.
func (k Key) display(v string) string {
	if k.Name != "database" || v == "" || strings.HasPrefix(v, "sqlite:") {
		return k.quoted(v)
	}
	u, err := url.Parse(v)
	if err != nil {
		return hidden
	}
	q := u.Query()
	for name := range q {
		if strings.Contains(strings.ToLower(name), "password") {
			q.Set(name, "xxxxx")
		}
	}
	u.RawQuery = q.Encode()
	return u.Redacted()
}

// contradictions returns settings that are valid alone but contradict each other.
func contradictions(c Config) (wrong Mistakes) {
	say := func(bad bool, key, value, want string) {
		if bad {
			wrong = append(wrong, Mistake{key, value, want, "as set or by default"})
		}
	}
	j := c.JWT
	say((j.On() || j.Audience != "" || j.KeysURL != "" || j.Secret != "") && (!j.On() || j.Audience == "" || (j.KeysURL == "") == (j.Secret == "")),
		"auth.jwt.issuer", j.Issuer, "auth.jwt.issuer and auth.jwt.audience, and one of auth.jwt.jwks_url and auth.jwt.secret; or none of them")
	say(c.BootstrapWorker != "" && c.BootstrapWorker == c.BootstrapKey, "bootstrap_worker_key", hidden, "another key than bootstrap_key: one is for workers, the other may do everything")
	say((c.TLSCert == "") != (c.TLSKey == ""), "tls.key", c.TLSKey, "tls.cert and tls.key together, or neither")
	say(c.TLSClientCA != "" && c.TLSCert == "", "tls.client_ca", c.TLSClientCA, "tls.cert and tls.key, too: certificates of clients are asked for over https only")
	say(c.SecretsKeyFile != "" && c.SecretsKey != "", "secrets.key_file", c.SecretsKeyFile, "secrets.key_file or secrets.key, not both")
	p := c.Callbacks
	say(p.Proxy == "" && (p.ProxyCredentials != "" || p.ProxyCA != "" || p.ProxyResolves), "callbacks.proxy", p.Proxy, "the URL of the proxy that the other settings of it are for")
	say(p.ProxyCA != "" && p.Proxy != "" && !strings.HasPrefix(strings.ToLower(p.Proxy), "https:"), "callbacks.proxy_ca_file", p.ProxyCA, "nothing, or an https:// URL in callbacks.proxy: a proxy over http shows no certificate")
	v := c.Vault
	say(v.Address != "" && v.Auth == VaultToken && (v.Token == "") == (v.Credential == ""), "secrets.vault_credential_file", v.Credential, "for secrets.vault_auth = token either secrets.vault_token or a file with the token")
	say(v.Address != "" && v.Auth != VaultToken && (v.Role == "" || v.Credential == ""), "secrets.vault_role", v.Role, "for secrets.vault_auth = "+v.Auth+" both secrets.vault_role and secrets.vault_credential_file")
	say(c.Artifacts.TenantMB < c.Artifacts.MaxMB, "artifacts.tenant_mb", strconv.Itoa(c.Artifacts.TenantMB), fmt.Sprintf("at least artifacts.max_mb, which is %d", c.Artifacts.MaxMB))
	place, err := location.Parse(c.Blobs.URL)
	if err != nil {
		say(true, "blobs.url", unsuspicious(c.Blobs.URL), err.Error())
	}
	embedded := func(key, url, is string) bool {
		if url == "" {
			return false
		}
		_, err := Outside(url)
		say(err != nil, key, unsuspicious(url), fmt.Sprint(err))
		say(err == nil && strings.HasPrefix(c.Database, "postgres"), key, url, "nothing: only the embedded store (sqlite:PATH) is "+is+"; PostgreSQL has its own means")
		return true
	}
	embedded("backup.url", c.Backup.URL, "backed up")
	if embedded("replicate.url", c.Replicate.URL, "replicated") {
		say(c.Replicate.Keep < c.Replicate.Snapshots, "replicate.keep_hours", strconv.Itoa(int(c.Replicate.Keep.Hours())), fmt.Sprintf("at least replicate.snapshot_hours, which is %d", int(c.Replicate.Snapshots.Hours())))
	}
	if most := place.MaxObject() >> 20; err == nil && most > 0 {
		say(int64(c.Artifacts.MaxMB) > most, "artifacts.max_mb", strconv.Itoa(c.Artifacts.MaxMB), fmt.Sprintf("at most %d, which %s (blobs.url) takes", most, place))
	}
	if v := c.Archive.URL; v != "" {
		at, err := location.Parse(v)
		want := "file:PATH (a folder that all servers share) or s3://BUCKET/PREFIX?endpoint=URL (a bucket), or nothing"
		if err != nil {
			want = err.Error()
			if strings.Contains(v, "@") || suspicious.MatchString(v) {
				v = hidden
			}
		}
		say(err != nil || at.Kind == location.Database, "archive.url", v, want)
	}
	say(c.Workers.MaxCount < c.Workers.DefaultCount, "workers.max_count", strconv.Itoa(c.Workers.MaxCount), fmt.Sprintf("at least workers.default_count, which is %d", c.Workers.DefaultCount))
	say(c.Retry.Max < c.Retry.Initial, "retry.max_delay_ms", strconv.FormatInt(c.Retry.Max.Milliseconds(), 10), fmt.Sprintf("at least retry.initial_delay_ms, which is %d", c.Retry.Initial.Milliseconds()))
	say(c.History.Warm < c.History.Hot, "history.warm_days", strconv.Itoa(c.History.Warm), fmt.Sprintf("at least history.hot_days, which is %d", c.History.Hot))
	return wrong
}

// unsuspicious hides a place that should hold no credentials, but in which somebody may have written some.
func unsuspicious(v string) string {
	if strings.Contains(v, "@") || suspicious.MatchString(v) {
		return hidden
	}
	return v
}

// Outside reads the location of a place outside the store: a folder or a bucket.
func Outside(text string) (location.Location, error) {
	at, err := location.Parse(text)
	if err != nil || at.Kind == location.Database {
		return at, errors.New("file:PATH (a folder) or s3://BUCKET/PREFIX?endpoint=URL (a bucket)" + detailOf(text, err))
	}
	return at, nil
}

// detailOf is what exactly is wrong with the location of a bucket.
func detailOf(text string, err error) string {
	if err == nil || !strings.HasPrefix(text, "s3:") {
		return ""
	}
	return ": " + err.Error()
}
