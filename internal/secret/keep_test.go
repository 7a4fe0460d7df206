package secret

import (
	"slices"
	"testing"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// The reference that stands for a hidden credential can be guessed. Whoever sends it is treated like one who leaves the value hidden:
// the credential stays where the target stays, and is dropped where it moves.
func TestAGuessedReferenceDoesNotMoveACredential(t *testing.T) {
	const header, variable = "${secret:~0190/authorization}", "${secret:~0190/env/API_TOKEN}"
	call := job.Definition{Target: job.Target{Kind: job.HTTP, URL: "https://good.example/", Headers: map[string]string{"Authorization": header}}}
	program := job.Definition{Target: job.Target{Kind: job.Command, Command: []string{"deploy"}, Env: map[string]string{"API_TOKEN": variable}}}
	for _, value := range []string{Hidden, header} {
		moved := call
		moved.Target.URL, moved.Target.Headers = "https://evil.example/", map[string]string{"Authorization": value}
		if out, dropped, why := Keep(moved, call); !slices.Equal(dropped, []string{"execution.headers.Authorization"}) || why == "" || len(out.Target.Headers) != 0 {
			t.Errorf("%s went along to another origin: %v, dropped %v (%s)", value, out.Target.Headers, dropped, why)
		}
		moved.Target.URL = "https://good.example/elsewhere"
		if out, dropped, _ := Keep(moved, call); len(dropped) != 0 || out.Target.Headers["Authorization"] != header {
			t.Errorf("%s at the same origin: %v, dropped %v", value, out.Target.Headers, dropped)
		}
	}
	for _, value := range []string{Hidden, variable} {
		moved := program
		moved.Target.Command, moved.Target.Env = []string{"env"}, map[string]string{"API_TOKEN": value}
		if out, dropped, why := Keep(moved, program); !slices.Equal(dropped, []string{"execution.env.API_TOKEN"}) || why == "" || len(out.Target.Env) != 0 {
			t.Errorf("%s went along to another program: %v, dropped %v (%s)", value, out.Target.Env, dropped, why)
		}
	}
}

func TestExposed(t *testing.T) {
	for value, want := range map[string]bool{
		"{{ nodes.login.result.token }}": false, "Bearer {{ nodes.login.result }}": false, "bearer  {{ run.input }}": false, "session={{ run.input }}; theme=dark": false, "Basic ${secret:login}{{ run.id }}": false,
		"${secret:a}:{{ run.id }}": false, "session_id=${secret:a}; run={{ run.id }}": false, "{{ run.id }}-eu-1": false, "Token {{ run.input + '}}' }}": false,
		"Bearer abc123{{ run.id }}": true, "Bearer abc123 {{ run.id }}": true, "abc123{{ run.id }}": true, "{{ run.id }}abc123": true, "session=abcdef; run={{ run.id }}": true, "Basic YWxpY2U6aHVudGVyMg== {{ run.id }}": true,
		"Bearer bearer {{ run.id }}": true, "canary {{ run.id }}": true, "{{ run.id": false,
	} {
		if got := Exposed(value); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}
