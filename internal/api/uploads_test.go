package api_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/carillon-jobs/carillon/client"
)

// upload is one that is under way: the test writes its body.
type upload struct {
	*io.PipeWriter
	t      *testing.T
	answer chan *httptest.ResponseRecorder
}

// begin begins an upload of a length, or of an unknown one if that is -1, and returns when some of its body has been read and counted.
func (f face) begin(t *testing.T, who string, length int64, some string) upload {
	t.Helper()
	body, to := io.Pipe()
	u := upload{to, t, make(chan *httptest.ResponseRecorder, 1)}
	r := httptest.NewRequest("PUT", "http://localhost:8080/api/v1/artifacts", body)
	r.ContentLength = length
	r.Header.Set("Authorization", who)
	go func() {
		w := httptest.NewRecorder()
		f.http.ServeHTTP(w, r)
		body.CloseWithError(errors.New("the answer came first"))
		u.answer <- w
	}()
	u.write(some)
	return u
}

// write writes more of the body, and returns when all but the last byte has been counted: who reads that has done with the others.
func (u upload) write(text string) {
	u.t.Helper()
	for _, part := range []string{text[:len(text)-1], text[len(text)-1:]} {
		if part == "" {
			continue
		}
		if _, err := io.WriteString(u, part); err != nil {
			u.t.Fatalf("%v: %s", err, (<-u.answer).Body)
		}
	}
}

// end ends the body, and expects the status.
func (u upload) end(status int) {
	u.t.Helper()
	u.Close()
	if w := <-u.answer; w.Code != status {
		u.t.Errorf("answered %d, want %d: %s", w.Code, status, w.Body)
	}
}

// unread expects that an upload is refused without a look at its body.
func (f face) unread(t *testing.T, who string, length int64, status int, code string) client.Problem {
	t.Helper()
	r := httptest.NewRequest("PUT", "http://localhost:8080/api/v1/artifacts", untouched{t})
	r.ContentLength = length
	r.Header.Set("Authorization", who)
	w := httptest.NewRecorder()
	f.http.ServeHTTP(w, r)
	var p client.Problem
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != status || p.Code != code {
		t.Errorf("answered %d %s, want %d %s", w.Code, w.Body, status, code)
	}
	if status == 429 && w.Header().Get("Retry-After") == "" {
		t.Error("it does not say when to try again")
	}
	return p
}

// untouched is a body that nobody may read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, io.EOF
}

const mebibyte = 1 << 20

func TestAnUploadOverTheQuotaIsNotRead(t *testing.T) {
	f := commanding(t)
	big := strings.Repeat("x", mebibyte)
	for _, first := range []string{"1", "2"} {
		want[client.Artifact](f, 201, "PUT", "/api/v1/artifacts", first+big[1:], "Authorization", "default operator")
	}
	for _, length := range []int64{1, mebibyte - 1, -1} {
		if p := f.unread(t, "default operator", length, 403, "over_quota"); !strings.Contains(p.Detail, "they have 2097152") {
			t.Errorf("%s", p.Detail)
		}
	}
	// One that is as long as one that is there may be that one, which takes no more room. It is read, and one at a time.
	u := f.begin(t, "default operator", mebibyte, "2x")
	f.unread(t, "default operator", mebibyte, 403, "over_quota")
	u.write(big[2:])
	u.end(200)
	want[client.Problem](f, 403, "PUT", "/api/v1/artifacts", "3"+big[1:], "Authorization", "default operator")
}

// TestUploadsAtOnceShareTheQuota begins uploads that fit only one by one.
func TestUploadsAtOnceShareTheQuota(t *testing.T) {
	big := strings.Repeat("x", mebibyte)
	for name, length := range map[string]int64{"of known length": mebibyte, "of unknown length": -1} {
		t.Run(name, func(t *testing.T) {
			f := commanding(t)
			first := f.begin(t, "default operator", length, "1"+big[1:])
			second := f.begin(t, "default operator", length, "2"+big[2:])
			if length > 0 {
				f.unread(t, "default operator", 3, 403, "over_quota")
			}
			third := f.begin(t, "other operator", -1, "333")
			third.end(201)
			if w := f.ask("PUT", "/api/v1/artifacts", "3333333333", "Authorization", "default operator"); w.Code != 403 || !strings.Contains(w.Body.String(), "over_quota") {
				t.Errorf("beside the others: %d %s", w.Code, w.Body)
			}
			first.CloseWithError(errors.New("the line broke"))
			first.end(400)
			second.write("x")
			second.end(201)
			want[client.Artifact](f, 201, "PUT", "/api/v1/artifacts", "333", "Authorization", "default operator")
		})
	}
}

func TestUploadsHaveSeats(t *testing.T) {
	f := commanding(t)
	var all []upload
	for range 6 {
		all = append(all, f.begin(t, "default operator", 4, "ab"))
	}
	if p := f.unread(t, "default operator", 4, 429, "too_many_uploads"); !strings.Contains(p.Detail, "6 uploads") {
		t.Errorf("%s", p.Detail)
	}
	for range 2 {
		all = append(all, f.begin(t, "other operator", 4, "ab"))
	}
	f.unread(t, "third operator", 4, 429, "too_many_uploads")
	for i, u := range all {
		u.write("cd")
		if i == 0 || i == 6 {
			u.end(201)
		} else {
			u.end(200)
		}
	}
	want[client.Artifact](f, 200, "PUT", "/api/v1/artifacts", "abcd", "Authorization", "default operator")
}
