package job

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// Moved says why a credential that was stored with one definition must not be handed to another, or nothing where it may be. A
// credential belongs to the destination it was given for: the origin of a callback, or a program with its arguments.
func Moved(was, now *Definition) string {
	a, b := &was.Target, &now.Target
	switch {
	case a.Kind != b.Kind:
		return "the target changed"
	case a.Kind == HTTP && Origin(a.URL) != Origin(b.URL):
		return "the callback goes to another origin"
	case !slices.Equal(a.Command, b.Command) || a.Artifact != b.Artifact || a.Entrypoint != b.Entrypoint:
		return "the program or its arguments changed"
	case steered(a.Env, b.Env) != "":
		return "the variable " + Show(steered(a.Env, b.Env)) + " changed, which can say what the program loads or connects to"
	case b.PayloadIsProgram() && string(was.Payload) != string(now.Payload):
		return "the payload changed, which the program reads as code"
	}
	return ""
}

// Origin is the scheme, host and port that a callback URL leads to.
func Origin(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	}
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// steered is the first variable that differs and can make the same program load or reach something else.
func steered(was, now map[string]string) string {
	var found []string
	for name, value := range now {
		if old, ok := was[name]; (!ok || old != value) && steers(name, old, value) {
			found = append(found, name)
		}
	}
	for name, old := range was {
		if _, ok := now[name]; !ok && steers(name, old) {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// steeringPrefixes begin the names of variables that loaders, interpreters and common clients obey.
var steeringPrefixes = []string{"LD_", "DYLD_", "BASH", "PYTHON", "PERL", "RUBY", "NODE_", "JAVA", "JDK_", "_JAVA", "GIT_", "SSH_", "XDG_", "PGSERVICE", "CURL_", "SSL_", "LUA_", "PHP", "GCONV"}

// steeringWords are words of such names, and of those that say where to connect.
var steeringWords = map[string]bool{
	"ENV": true, "IFS": true, "PATH": true, "SHELL": true, "PS4": true, "SHELLOPTS": true, "EDITOR": true, "VISUAL": true, "PAGER": true, "BROWSER": true, "HOME": true, "CLASSPATH": true,
	"OPTS": true, "OPTIONS": true, "FLAGS": true, "CONFIG": true, "CONF": true, "RC": true, "FILE": true, "DIR": true, "COMMAND": true, "CMD": true, "EXEC": true, "HOOK": true, "PRELOAD": true, "STARTUP": true, "PLUGIN": true, "PLUGINS": true,
	"DEBUG": true, "TRACE": true, "ADDRESS": true, "PORT": true, "DOMAIN": true, "DSN": true, "SOCKET": true, "BROKER": true, "BROKERS": true, "SERVERS": true, "HOSTS": true, "URLS": true, "ORIGIN": true, "GATEWAY": true, "REMOTE": true, "WEBHOOK": true,
	"CONNECTION": true, "CONN": true, "BUNDLE": true, "CERT": true, "CA": true, "INSECURE": true, "SSLMODE": true, "PGSSLMODE": true, "PGPORT": true, "PSQLRC": true, "LESSOPEN": true, "LESSCLOSE": true,
}

// steeringEnds end words such as PGHOST.
var steeringEnds = []string{"HOST", "HOSTNAME", "HOSTADDR", "ADDR", "URL", "URI", "ENDPOINT", "ENDPOINTS", "PROXY", "SERVER"}

func steers(name string, values ...string) bool {
	upper := strings.ToUpper(name)
	for _, p := range steeringPrefixes {
		if strings.HasPrefix(upper, p) {
			return true
		}
	}
	for word := range strings.FieldsFuncSeq(upper, func(r rune) bool { return (r < 'A' || r > 'Z') && (r < '0' || r > '9') }) {
		if steeringWords[word] || slices.ContainsFunc(steeringEnds, func(end string) bool { return strings.HasSuffix(word, end) }) {
			return true
		}
	}
	return slices.ContainsFunc(values, func(v string) bool { return strings.Contains(v, "://") })
}

// interpreters read a program from standard input unless an argument names one.
var interpreters = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "pwsh", "busybox", "python", "pypy", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "tclsh", "expect", "R"}

// readers take commands from standard input whatever their arguments are.
var readers = []string{"psql", "mysql", "mariadb", "sqlite3", "redis-cli", "mongosh", "ssh", "xargs", "parallel"}

// PayloadIsProgram reports whether a command reads its standard input, which is the payload, as code: a shell without a script.
func (t *Target) PayloadIsProgram() bool {
	if t.Kind != Command || t.Entrypoint != "" {
		return false
	}
	for i := len(t.Command) - 1; i >= 0; i-- {
		base := path.Base(t.Command[i])
		if slices.Contains(readers, base) {
			return true
		}
		if !slices.Contains(interpreters, strings.TrimRight(base, "0123456789.")) {
			continue
		}
		for _, arg := range t.Command[i+1:] {
			switch {
			case arg == "-" || arg == "-s" || arg == "/dev/stdin":
				return true
			case !strings.HasPrefix(arg, "-"):
				return false // a script, or the code behind -c
			}
		}
		return true
	}
	return false
}
