package client

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAnAnswerThatIsTooLargeSaysSo(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"attempts": [{"job_name": "`)
		part := []byte(strings.Repeat("x", 1<<20))
		for range 65 {
			w.Write(part)
		}
		io.WriteString(w, `"}]}`)
	}))
	defer server.Close()
	_, err := New([]string{server.URL}, "k").Claim(t.Context(), Session{WorkerID: "w"}, 5)
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "POST /api/v1/workers/w/claim: the answer is larger than 64 MiB") {
		t.Errorf("got %.200v", err)
	}
}

func TestRequestsAreEncodedPlainly(t *testing.T) {
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		got = string(data)
		io.WriteString(w, `{"verdicts": []}`)
	}))
	defer server.Close()
	c := New([]string{server.URL}, "k")
	if _, err := c.Report(t.Context(), Session{}, []Outcome{{Result: json.RawMessage(`"<&>"`)}}); err != nil || !strings.Contains(got, `"result":"<&>"`) {
		t.Errorf("sent %s: %v", got, err)
	}
	if _, err := c.Report(t.Context(), Session{}, []Outcome{{Result: json.RawMessage(`{`)}}); !errors.Is(err, ErrEncoding) {
		t.Errorf("what is no JSON: %v", err)
	}
}
