package terminal

import (
	"slices"
	"testing"

	"github.com/jobd/jobd/api/picture"
)

func TestChain(t *testing.T) {
	links := []picture.Link{
		{Name: "train", When: "ok", State: "Waiting"},
		{Name: "prep", When: "ok", State: "Complete", Met: true, Depth: 1},
		{Name: "check", When: "any", Depth: 1},
		{Name: "bad", When: "failed", State: "Failed", Met: true},
	}
	want := []string{
		"  after train to complete: Waiting",
		"  + after prep to complete: Complete", "    after check to end: there is none yet", "+ after bad to fail: Failed",
	}
	if got := chain(links, 10, Style{}); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := chain(links, 2, Style{}); len(got) != 2 || got[1] != "  and 3 more" {
		t.Errorf("%q", got)
	}
	if got := chain(nil, 1, Style{}); got != nil {
		t.Errorf("%q", got)
	}
}
