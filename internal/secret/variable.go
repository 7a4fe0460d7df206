package secret

import (
	"net/url"
	"slices"
	"strings"
)

// Words of the names of variables. They are in upper case and separated by _.
var (
	// secretWords mark, anywhere in a name, a variable that carries a credential.
	secretWords = []string{"TOKEN", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE", "PASSCODE", "CREDENTIAL", "CREDENTIALS", "APIKEY", "SIGNATURE", "COOKIE", "AUTHORIZATION", "JWT", "BEARER"}
	// secretEnds are endings of words such as PGPASSWORD.
	secretEnds = []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "APIKEY", "PASSPHRASE"}
	// otherKeys are words before KEY, at the end of a name, of keys that are not secret.
	otherKeys = []string{"PUBLIC", "PRIMARY", "FOREIGN", "PARTITION", "SORT", "RANGE", "CACHE", "ROUTING", "IDEMPOTENCY", "OBJECT", "BUCKET", "REGISTRY", "LOOKUP", "GROUP", "HOT", "SHORTCUT", "UNIQUE", "CONCURRENCY"}
	// aboutWords, at the end of a name, mark a variable that describes a credential.
	aboutWords = []string{
		"FILE", "PATH", "DIR", "DIRECTORY", "NAME", "ID", "URL", "URI", "ENDPOINT", "HOST", "PORT", "TTL", "EXPIRY", "EXPIRES", "EXPIRATION", "LENGTH", "SIZE", "LIMIT", "COUNT", "TYPE", "HEADER", "ALGORITHM", "ALG",
		"ISSUER", "AUDIENCE", "TIMEOUT", "ENABLED", "DISABLED", "REQUIRED", "POLICY", "PREFIX", "FORMAT", "VERSION", "REGION", "AGE", "BACKEND", "PROVIDER", "STORE", "SCOPE", "SCOPES", "PARALLELISM", "MOUNT",
	}
)

// Variable reports whether an environment variable of that name carries a credential, such as API_TOKEN, PGPASSWORD, SECRET_KEY_BASE or
// STRIPE_KEY, but not TOKEN_FILE, MAX_TOKENS or PUBLIC_KEY.
func Variable(name string) bool {
	words := strings.Split(strings.ToUpper(name), "_")
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	if len(words) == 0 || slices.Contains(aboutWords, words[len(words)-1]) {
		return false
	}
	for i, w := range words {
		last := i == len(words)-1
		switch {
		case slices.Contains(secretWords, w), slices.ContainsFunc(secretEnds, func(end string) bool { return strings.HasSuffix(w, end) }):
			return true
		case w == "PWD" && len(words) > 1: // PWD itself is a folder
			return true
		case w == "AUTH" && last && i > 0 && words[i-1] == "REDISCLI":
			return true
		case w == "KEY" && i > 0 && (last || words[i-1] == "API" || words[i-1] == "PRIVATE" || words[i-1] == "ACCESS") && !slices.Contains(otherKeys, words[i-1]):
			return true
		}
	}
	return false
}

// passwordInURL reports whether a text is a URL with a password, such as that of a database.
func passwordInURL(s string) bool {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" || len(scheme) > 30 || !strings.Contains(rest, "@") {
		return false
	}
	u, err := url.Parse(s)
	if err != nil {
		before, _, _ := strings.Cut(rest, "/")
		user, _, at := strings.Cut(before, "@")
		return at && strings.Contains(user, ":") // what cannot be read is not shown
	}
	password, has := u.User.Password()
	return has && password != ""
}
