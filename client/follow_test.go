package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
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

// A stream that says nothing any more hangs and is opened again; one that beats is left alone, however little happens.
func TestAStreamThatHangsIsTakenUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var opened []string
		c := over(func(r *http.Request) (*http.Response, error) {
			opened = append(opened, fmt.Sprint(r.Header.Get("Last-Event-ID"), " after ", time.Since(begun).Round(time.Second)))
			body, to := io.Pipe()
			context.AfterFunc(r.Context(), func() { to.CloseWithError(r.Context().Err()) })
			n := len(opened)
			go func() {
				fmt.Fprintf(to, "id: %d\nevent: changes\ndata: {\"changes\": [{\"type\": \"%d\"}]}\n\n", n, n)
				for range 60 {
					time.Sleep(5 * time.Second)
					if _, err := io.WriteString(to, "event: beat\ndata: {}\n\n"); err != nil {
						return
					}
				}
				<-r.Context().Done() // and then nothing
			}()
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body}, nil
		})
		enough := errors.New("enough")
		err := c.FollowChanges(t.Context(), func(x Changes) error {
			if x.Changes[0].Type == "3" {
				return enough
			}
			time.Sleep(time.Minute) // who reads may take their time
			return nil
		}, nil)
		if err != enough || len(opened) != 3 || opened[0] != " after 0s" || opened[1] != "1 after 6m35s" {
			t.Errorf("%v: opened %q", err, opened)
		}
		time.Sleep(10 * time.Second) // until the last server has noticed
	})
}
