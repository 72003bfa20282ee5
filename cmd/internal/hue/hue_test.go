package hue

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/jobset"
)

// TestTheBrowserHasTheSameColors: the badge of a state in the page of the dashboard has the colour that terminals have for it.
func TestTheBrowserHasTheSameColors(t *testing.T) {
	style, err := os.ReadFile("../../../api/dashboard/page/style.css")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]Hue{"r": Runs, "b": Waits, "s": Good, "f": Bad, "p": Held}
	page := map[string]Hue{}
	for _, rule := range regexp.MustCompile(`((?:\.is-[a-z]+::before,? ?)+)\{ background: var\(--([a-z])\); \}`).FindAllStringSubmatch(string(style), -1) {
		for _, state := range regexp.MustCompile(`is-([a-z]+)`).FindAllStringSubmatch(rule[1], -1) {
			page[state[1]] = names[rule[2]]
		}
	}
	if len(page) < 8 {
		t.Fatalf("not understood: %v", page)
	}
	for _, state := range []string{
		batch.StateWaiting, batch.StateRunning, batch.StateSuspended, batch.StatePaused, batch.StatePreempted, batch.StateCompleting, batch.StateFailing,
		batch.StateComplete, batch.StateFailed, batch.StateTerminating, jobset.StateRestarting, "Pending", "Succeeded",
	} {
		if got := page[strings.ToLower(state)]; got != Of(state) {
			t.Errorf("%s has colour %d in the browser and %d in terminals", state, got, Of(state))
		}
	}
}
