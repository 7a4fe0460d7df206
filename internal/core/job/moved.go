package job

import (
	"net/url"
	"path"
	"slices"
	"strings"
)

// Moved returns why a credential that was stored with one definition must not be passed to another, or "" if it may.
// A credential belongs to the destination it was given for: the origin of a callback, or a program with its arguments
// and variables. hides reports the names of variables that are credentials themselves, each of which may change
// without the others.
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

// Origin returns the scheme, host and port of a callback URL.
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

// steered returns the first variable that differs and may make the same program do, load or contact something else.
// Nobody can list what programs obey, so any may, except those of the language and the time zone, and credentials.
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

// harmless reports whether a variable with that value only sets the language and time zone of a program. A value that
// could be a path, or be expanded, does more.
func harmless(name, value string) bool {
	if name != "TZ" && name != "LANG" && name != "LANGUAGE" && !strings.HasPrefix(name, "LC_") {
		return false
	}
	return !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, ":") && !strings.Contains(value, "..") && !strings.ContainsFunc(value, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._@:-+/,<>", r)
	})
}

// steeringPrefixes are prefixes of variables that loaders, interpreters and common clients obey. This and the
// following lists apply to variables that look like credentials, such as RESTIC_PASSWORD_COMMAND; every other
// variable counts as steering.
var steeringPrefixes = []string{"LD_", "DYLD_", "BASH", "PYTHON", "PERL", "RUBY", "NODE_", "JAVA", "JDK_", "_JAVA", "GIT_", "SSH_", "XDG_", "PGSERVICE", "CURL_", "SSL_", "LUA_", "PHP", "GCONV"}

// steeringWords are words in such names, and in those that say where to connect.
var steeringWords = map[string]bool{
	"ENV": true, "IFS": true, "PATH": true, "SHELL": true, "PS4": true, "SHELLOPTS": true, "EDITOR": true, "VISUAL": true, "PAGER": true, "BROWSER": true, "HOME": true, "CLASSPATH": true,
	"OPTS": true, "OPTIONS": true, "MAKEFLAGS": true, "ASKPASS": true, "HELPER": true, "SCRIPT": true, "PROGRAM": true, "EVAL": true, "FLAGS": true, "CONFIG": true, "CONF": true, "RC": true, "FILE": true, "DIR": true, "COMMAND": true, "CMD": true, "EXEC": true, "HOOK": true, "PRELOAD": true, "STARTUP": true, "PLUGIN": true, "PLUGINS": true,
	"DEBUG": true, "TRACE": true, "ADDRESS": true, "PORT": true, "DOMAIN": true, "DSN": true, "SOCKET": true, "BROKER": true, "BROKERS": true, "SERVERS": true, "HOSTS": true, "URLS": true, "ORIGIN": true, "GATEWAY": true, "REMOTE": true, "WEBHOOK": true,
	"CONNECTION": true, "CONN": true, "BUNDLE": true, "CERT": true, "CA": true, "INSECURE": true, "SSLMODE": true, "PGSSLMODE": true, "PGPORT": true, "PSQLRC": true, "LESSOPEN": true, "LESSCLOSE": true,
}

// steeringEnds are endings of words such as PGHOST.
var steeringEnds = []string{"HOST", "HOSTNAME", "HOSTADDR", "ADDR", "URL", "URI", "ENDPOINT", "ENDPOINTS", "PROXY", "SERVER"}

// steers reports whether the name or a value of a credential shows that it is more than that.
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

// interpreterPrefixes are prefixes of more of them, such as python3.12 and luajit.
var interpreterPrefixes = []string{"python", "pypy", "lua"}

// wrappers run the program that their arguments name.
var wrappers = []string{"env", "nice", "nohup", "setsid", "sudo", "doas"}

// scriptEnds are the extensions of files that interpreters run.
var scriptEnds = []string{".sh", ".bash", ".zsh", ".ksh", ".fish", ".csh", ".ps1", ".py", ".pyz", ".pl", ".rb", ".js", ".mjs", ".cjs", ".ts", ".mts", ".php", ".phar", ".lua", ".tcl", ".exp", ".R", ".r", ".jl"}

// plainFlags lists, by interpreter, options that neither take a value nor read a program from elsewhere.
var plainFlags = map[string][]string{
	"sh": {"-u", "-x", "-ux"}, "bash": {"-u", "-x", "-ux"}, "dash": {"-u", "-x", "-ux"}, "zsh": {"-u", "-x", "-ux"}, "ksh": {"-u", "-x", "-ux"},
	"python": {"-u", "-B", "-E", "-I", "-O"}, "perl": {"-w"}, "ruby": {"-w"},
}

// PayloadIsProgram reports whether a command may read its standard input, which is the payload, as code. It does not
// if it recognisably runs a script file, by the file's extension or as an interpreter's argument. For other programs
// it cannot be known: curl -K -, jq -f /dev/stdin, xargs and thousands more take orders from there.
func (t *Target) PayloadIsProgram() bool {
	if t.Kind != Command {
		return false
	}
	words := t.Command
	if t.Entrypoint != "" {
		words = append([]string{t.Entrypoint}, words...)
	}
	if len(words) == 0 { // an artifact that is itself a program
		return true
	}
	name := programName(words[0])
	switch {
	case isScript(words[0]):
		return slices.ContainsFunc(words[1:], takesCode)
	case interprets(name):
		return !runsScript(name, words[1:])
	case slices.Contains(wrappers, name) && len(words) > 1:
		return !isScript(words[1]) || slices.ContainsFunc(words[2:], takesCode)
	}
	return true
}

// isScript reports whether a word names a script file that a wrapper or shell would not interpret differently.
func isScript(word string) bool {
	return !strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "+") && !strings.ContainsAny(word, "= \t\n;|&$`") && slices.Contains(scriptEnds, path.Ext(programName(word)))
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
	if isScript(file) {
		return true
	}
	if strings.HasPrefix(file, "-") || strings.HasPrefix(file, "+") || strings.ContainsAny(file, "= \t\n;|&$`") {
		return false
	}
	base := programName(file)
	return base != "" && !interprets(base) && !slices.Contains(wrappers, base) && strings.ContainsAny(file, `/\`)
}

// takesCode reports whether an argument is code, precedes it, or stands for standard input.
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
