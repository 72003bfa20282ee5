package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

func (l *life) compareEvents(t *testing.T) {
	ours, theirs := map[string]int32{}, map[string]int32{}
	for _, e := range l.Events {
		l.count(theirs, e.Object, e.Type, e.Reason, e.Message, int32(ptr.Deref(e.Count, 1)))
	}
	for _, e := range l.events {
		l.count(ours, e.InvolvedObject.Kind+"/"+e.InvolvedObject.Name, e.Type, e.Reason, e.Message, max(1, e.Count))
	}
	if diff := gocmp.Diff(theirs, ours); diff != "" {
		t.Errorf("events (- the cluster's, + ours):\n%s", diff)
	}
}

// worded are the parts of messages that depend on the machine.
var worded = []struct {
	what *regexp.Regexp
	as   string
}{
	{regexp.MustCompile(`(Successfully assigned \S+) to \S+$`), "$1 to the node"},
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`), "UID"},
	{regexp.MustCompile(`^Error: .*/nonexistent.*`), "Error: the OCI runtime's words for /nonexistent"},
}

func (l *life) count(events map[string]int32, object, kind, reason, message string, n int32) {
	if slices.Contains(different[l.Name].events, reason) {
		return
	}
	for _, w := range worded {
		message = w.what.ReplaceAllString(message, w.as)
	}
	if different[l.Name].counts {
		n = 0
	}
	events[l.unnamed(strings.Join([]string{object, kind, reason, message}, " "))] += n
}
