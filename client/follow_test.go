package client

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
)

func TestFollowingIsTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var behind []string
		c := over(func(r *http.Request) (*http.Response, error) {
			behind = append(behind, r.Header.Get("Last-Event-ID"))
			switch len(behind) {
			case 1:
				return answer(200, "id: 1\nevent: ready\ndata: {}\n\n: alive\n\nid: 2\nevent: changes\ndata: {\"changes\": [{\"type\": \"a\"}]}\n\nid: 3\nevent: changes\ndata: {\"cha")
			case 2:
				return nil, refused
			}
			return answer(200, "id: 4\nevent: reset\ndata: {\"reason\": \"r\"}\n\nid: 5\nevent: changes\ndata: {\"changes\": [{\"type\": \"b\"}]}\n\n")
		})
		enough := errors.New("enough")
		var got []string
		err := c.FollowChanges(t.Context(), func(x Changes) error {
			got = append(got, x.Changes[0].Type)
			if x.Changes[0].Type == "b" {
				return enough
			}
			return nil
		}, func(r Reset) error { got = append(got, r.Reason); return nil })
		if err != enough || !slices.Equal(got, []string{"a", "r", "b"}) || !slices.Equal(behind, []string{"", "2", "2"}) {
			t.Errorf("%v: %q behind %q", err, got, behind)
		}
		n := 0
		_, err = over(func(*http.Request) (*http.Response, error) { n++; return answer(404, "{}") }).FollowLog(t.Context(), "x", LogOptions{}, nil)
		if !errors.Is(err, ErrNotFound) || n != 1 {
			t.Errorf("of what is not there: %v after %d tries", err, n)
		}
	})
}
