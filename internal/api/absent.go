package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// nouns names one thing of each collection under /api/v1, for 404 responses.
var nouns = map[string]string{
	"api-keys": "API key", "artifacts": "artifact", "badges": "badge", "calendars": "calendar", "dead-letters": "dead letter",
	"executions": "execution", "holds": "hold", "jobs": "job", "notification-rules": "notification rule", "operations": "operation", "queues": "queue",
	"secrets": "secret", "sign-ins": "sign-in", "signing-secrets": "signing secret", "tenants": "tenant", "workers": "worker",
	"workflow-runs": "workflow run", "workflows": "workflow",
}

// absent names the requested thing that does not exist.
func absent(r *http.Request) string {
	collection, rest, _ := strings.Cut(strings.TrimPrefix(pathOf(r), "/api/v1/"), "/")
	noun := nouns[collection]
	if noun == "" || rest == "" {
		return "What the request names does not exist."
	}
	id := r.PathValue("id")
	if revision := r.PathValue("revision"); revision != "" {
		return fmt.Sprintf("No job with id %q has a revision %q.", job.Show(id), job.Show(revision))
	}
	if key, ok := strings.CutPrefix(id, "key:"); ok && (collection == "jobs" || collection == "workflows") {
		return fmt.Sprintf("No %s with key %q.", noun, job.Show(key))
	}
	for _, by := range []string{"name", "queue"} {
		if name := r.PathValue(by); name != "" {
			return fmt.Sprintf("No %s named %q.", noun, job.Show(name))
		}
	}
	return fmt.Sprintf("No %s with id %q.", noun, job.Show(id))
}
