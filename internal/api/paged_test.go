package api

import (
	"net/http/httptest"
	"testing"

	"github.com/carillon-jobs/carillon/internal/engine"
)

// A page of long elements ends early, and the next one goes on there.
func TestPagesOfLongElements(t *testing.T) {
	all := []int{engine.PageBytes / 2, engine.PageBytes / 2, 1, 2 * engine.PageBytes, 1}
	var pages []int
	for cursor := ""; ; {
		got, page, err := pagedWithin(httptest.NewRequest("GET", "/?limit=4&cursor="+cursor, nil), func(n *int) int { return *n }, func() ([]int, error) { return all, nil })
		if err != nil || page.Total != int64(len(all)) {
			t.Fatalf("a page of %d: %+v, %v", len(got), page, err)
		}
		if pages = append(pages, len(got)); page.Partial != (page.NextCursor != nil) {
			t.Errorf("page %d of %d elements: %+v", len(pages), len(got), page)
		}
		if page.NextCursor == nil {
			break
		}
		cursor = *page.NextCursor
	}
	if len(pages) != 3 || pages[0] != 2 || pages[1] != 2 || pages[2] != 1 {
		t.Errorf("pages of %v elements; want 2, 2 and 1", pages)
	}
}
