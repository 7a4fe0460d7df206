package job

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// Moved says why a credential that was stored with one definition must not be handed to another, or nothing where it may be. A
// credential belongs to the destination it was given for: the origin of a callback, or a program with its arguments and variables.
// hides tells the names of variables that are credentials themselves: one of them may change without the others.
func Moved(was, now *Definition, hides func(name string) bool) string {
	a, b := &was.Target, &now.Target
	steered := steered(a.Env, b.Env, hides)
	switch {
	case a.Kind != b.Kind:
		return "the target changed"
	case a.Kind == HTTP && Origin(a.URL) != Origin(b.URL):
		return "the callback goes to another origin"
	case !slices.Equal(a.Command, b.Command) || a.Artifact != b.Artifact || a.Entrypoint != b.Entrypoint:
		return "the program or its arguments changed"
	case steered != "":
		return "the variable " + Show(steered) + " changed, which can say what the program does, loads or connects to"
	case b.PayloadIsProgram() && string(was.Payload) != string(now.Payload):
		return "the payload changed, which the program may read as code"
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

// steered is the first variable that differs and may make the same program do, load or reach something else: any, since nobody can
// list what programs obey, but for those of the language and the time zone and for credentials.
func steered(was, now map[string]string, hides func(name string) bool) string {
	var found []string
	differs := func(name string, values ...string) {
		if !harmless(name, values[0]) && (!hides(name) || steers(name, values...)) {
			found = append(found, name)
		}
	}
	for name, value := range now {
		if old, ok := was[name]; !ok || old != value {
			differs(name, value, old)
		}
	}
	for name, old := range was {
		if _, ok := now[name]; !ok {
			differs(name, "", old)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

// harmless reports whether a variable with that value says only in which language and time zone a program speaks. A value that
// could be a path of one's own, or be expanded, is not that.
func harmless(name, value string) bool {
	if name != "TZ" && name != "LANG" && name != "LANGUAGE" && !strings.HasPrefix(name, "LC_") {
		return false
	}
	return !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, ":") && !strings.Contains(value, "..") && !strings.ContainsFunc(value, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._@:-+/,<>", r)
	})
}

// steeringPrefixes begin the names of variables that loaders, interpreters and common clients obey. They and what follows count for
// variables that look like credentials, such as RESTIC_PASSWORD_COMMAND; of others every one counts.
var steeringPrefixes = []string{"LD_", "DYLD_", "BASH", "PYTHON", "PERL", "RUBY", "NODE_", "JAVA", "JDK_", "_JAVA", "GIT_", "SSH_", "XDG_", "PGSERVICE", "CURL_", "SSL_", "LUA_", "PHP", "GCONV"}

// steeringWords are words of such names, and of those that say where to connect.
var steeringWords = map[string]bool{
	"ENV": true, "IFS": true, "PATH": true, "SHELL": true, "PS4": true, "SHELLOPTS": true, "EDITOR": true, "VISUAL": true, "PAGER": true, "BROWSER": true, "HOME": true, "CLASSPATH": true,
	"OPTS": true, "OPTIONS": true, "MAKEFLAGS": true, "ASKPASS": true, "HELPER": true, "SCRIPT": true, "PROGRAM": true, "EVAL": true, "FLAGS": true, "CONFIG": true, "CONF": true, "RC": true, "FILE": true, "DIR": true, "COMMAND": true, "CMD": true, "EXEC": true, "HOOK": true, "PRELOAD": true, "STARTUP": true, "PLUGIN": true, "PLUGINS": true,
	"DEBUG": true, "TRACE": true, "ADDRESS": true, "PORT": true, "DOMAIN": true, "DSN": true, "SOCKET": true, "BROKER": true, "BROKERS": true, "SERVERS": true, "HOSTS": true, "URLS": true, "ORIGIN": true, "GATEWAY": true, "REMOTE": true, "WEBHOOK": true,
	"CONNECTION": true, "CONN": true, "BUNDLE": true, "CERT": true, "CA": true, "INSECURE": true, "SSLMODE": true, "PGSSLMODE": true, "PGPORT": true, "PSQLRC": true, "LESSOPEN": true, "LESSCLOSE": true,
}

// steeringEnds end words such as PGHOST.
var steeringEnds = []string{"HOST", "HOSTNAME", "HOSTADDR", "ADDR", "URL", "URI", "ENDPOINT", "ENDPOINTS", "PROXY", "SERVER"}

// steers reports whether the name or a value of a credential says that it is more than that.
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
var interpreters = []string{
	"sh", "bash", "rbash", "dash", "ash", "zsh", "ksh", "mksh", "fish", "csh", "tcsh", "pwsh", "powershell", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "tclsh", "wish", "expect", "Rscript", "julia", "osascript",
}

// interpreterPrefixes begin the names of more of them, such as python3.12 and luajit.
var interpreterPrefixes = []string{"python", "pypy", "lua"}

// wrappers run the program that their arguments name.
var wrappers = []string{"env", "nice", "nohup", "setsid", "sudo", "doas"}

// readers may take commands from standard input whatever their arguments are, or run what does in a way that is not looked into.
var readers = []string{
	"busybox", "toybox", "make", "gmake", "awk", "gawk", "mawk", "nawk", "sed", "gsed", "R", "m4", "bc", "dc", "gdb", "lldb", "at", "batch", "ed", "ex", "vi", "vim", "emacs", "irb", "ipython", "cmd",
	"psql", "mysql", "mariadb", "sqlite", "sqlite3", "duckdb", "redis-cli", "valkey-cli", "mongo", "mongosh", "cqlsh", "sqlplus", "sqlcmd", "clickhouse-client",
	"ssh", "xargs", "parallel", "timeout", "su", "runuser", "flock", "chroot", "unshare", "nsenter", "stdbuf", "ionice", "taskset", "chrt", "time", "strace", "ltrace", "watch", "script", "entr", "socat", "systemd-run",
	"docker", "podman", "nerdctl", "kubectl", "exec", "eval", "source",
}

// scriptEnds end the names of files that interpreters run.
var scriptEnds = []string{".sh", ".bash", ".zsh", ".ksh", ".fish", ".csh", ".ps1", ".py", ".pyz", ".pl", ".rb", ".js", ".mjs", ".cjs", ".ts", ".mts", ".php", ".phar", ".lua", ".tcl", ".exp", ".R", ".r", ".jl"}

// plainFlags are options that neither take a value nor have a program read from elsewhere, by the interpreters that have them.
var plainFlags = map[string][]string{
	"sh": {"-u", "-x", "-ux"}, "bash": {"-u", "-x", "-ux"}, "dash": {"-u", "-x", "-ux"}, "zsh": {"-u", "-x", "-ux"}, "ksh": {"-u", "-x", "-ux"},
	"python": {"-u", "-B", "-E", "-I", "-O"}, "perl": {"-w"}, "ruby": {"-w"},
}

// PayloadIsProgram reports whether a command may read its standard input, which is the payload, as code: a shell or another
// interpreter that is not seen to run a script, and what cannot be told.
func (t *Target) PayloadIsProgram() bool {
	if t.Kind != Command {
		return false
	}
	words, first := t.Command, len(t.Command)
	if t.Entrypoint != "" { // a program of the artifact, whose arguments are its own
		words, first = append([]string{t.Entrypoint}, t.Command...), 1
	}
	for i, word := range words[:first] {
		name := programName(word)
		rest := words[i+1:]
		switch {
		case slices.Contains(readers, name):
			return true
		case interprets(name):
			return !runsScript(name, rest)
		case slices.Contains(wrappers, name) && !runsScript(name, rest):
			return true
		}
	}
	return false
}

// programName is the name of a program by its path.
func programName(word string) string {
	name := word[strings.LastIndexAny(word, `/\`)+1:]
	if lower := strings.ToLower(name); strings.HasSuffix(lower, ".exe") {
		name = strings.TrimSuffix(lower, ".exe")
	}
	return strings.TrimSuffix(name, "-static")
}

func interprets(name string) bool {
	if slices.Contains(scriptEnds, path.Ext(name)) {
		return false
	}
	return slices.Contains(interpreters, unnumbered(name)) || slices.ContainsFunc(interpreterPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// unnumbered is a name without its version.
func unnumbered(name string) string { return strings.TrimRight(name, "0123456789.") }

// runsScript reports whether arguments have an interpreter run a file, and nothing else.
func runsScript(name string, args []string) bool {
	if slices.ContainsFunc(args, takesCode) {
		return false
	}
	for len(args) > 0 && slices.Contains(plainFlags[unnumbered(name)], args[0]) {
		args = args[1:]
	}
	if len(args) == 0 {
		return false
	}
	file := args[0]
	if strings.HasPrefix(file, "-") || strings.HasPrefix(file, "+") || strings.ContainsAny(file, "= \t\n;|&$`") {
		return false
	}
	base := programName(file)
	if base == "" || interprets(base) || slices.Contains(readers, base) || slices.Contains(wrappers, base) {
		return false
	}
	return strings.ContainsAny(file, `/\`) || slices.Contains(scriptEnds, path.Ext(base))
}

// takesCode reports whether an argument is code, comes before it, or stands for standard input.
func takesCode(arg string) bool {
	switch arg {
	case "-", "-c", "-e", "-s", "-f-":
		return true
	}
	if slices.ContainsFunc([]string{"--eval", "--exec", "--command", "--print", "--stdin", "--file=-"}, func(p string) bool { return strings.HasPrefix(arg, p) }) {
		return true
	}
	clean := path.Clean(arg)
	return strings.Contains(clean, "dev/stdin") || strings.Contains(clean, "dev/fd") || strings.Contains(clean, "dev/tty") || strings.HasPrefix(clean, "/proc/")
}
