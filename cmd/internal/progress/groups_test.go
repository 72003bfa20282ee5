package progress

import (
	"bytes"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

func line(pod, text string) Chunk {
	return Chunk{Source: Source{Pod: pod}, Text: []byte(text), Begins: true, Ends: true}
}

func TestGroups(t *testing.T) {
	var out bytes.Buffer
	d := NewGroups(GitHub, nil, &out, io.Discard)
	over := func(pod string) { d.Event(Event{Type: "pod", Name: pod, State: string(Succeeded)}) }
	d.Log(line("a", "a1"))
	d.Log(line("b", "b1"))
	d.Log(line("a", "a2"))
	d.Log(line("c", "c1"))
	over("a")
	d.Log(line("b", "b2"))
	over("b")
	d.Log(line("a", "a3")) // late
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	want := `::group::pod a
a1
a2
::endgroup::
::group::pod b
b1
b2
::endgroup::
::group::pod c
c1
::endgroup::
::group::pod a, continued
a3
::endgroup::
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

// What has become of the Job is seen without unfolding anything, whatever was still open or waiting.
func TestTheEndOfAJobIsInNoGroup(t *testing.T) {
	for _, ci := range []CI{GitHub, GitLab} {
		var out bytes.Buffer // both streams, as such a system shows them
		d := NewGroups(ci, nil, &out, &out)
		d.Log(line("a", "a1"))
		d.Log(line("b", "b1"))
		d.Event(Event{Type: "end", Message: "job x: failed"})
		before := out.String()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		end := map[CI]string{GitHub: "::endgroup::", GitLab: "section_end:"}[ci]
		above, _, found := strings.Cut(before, "job x: failed\n")
		if !found || strings.Count(above, end) != 2 || !strings.Contains(above, "b1\n") || out.String() != before {
			t.Errorf("%s: got\n%q", ci, out.String())
		}
	}
}

// TestFailuresAreInNoGroup: what must be seen without unfolding anything is outside of every group, at once, but not within a line.
func TestFailuresAreInNoGroup(t *testing.T) {
	var out bytes.Buffer // both streams
	d := NewGroups(GitHub, nil, &out, &out)
	pod := func(name string, state PodState) { d.Event(Event{Type: "pod", Name: name, State: string(state)}) }
	part := func(pod, text string, begins, ends bool) {
		d.Log(Chunk{Source: Source{Pod: pod}, Text: []byte(text), Begins: begins, Ends: ends})
	}
	d.Log(line("a", "a1"))
	d.Log(line("b", "b1"))
	pod("b", Failed)
	d.Event(Event{Type: "notice", Message: "job x waits"}) // no group is open
	d.Log(line("c", "c1"))                                 // a goes on only when it has something to say
	pod("d", Running)
	d.Log(line("a", "a2"))
	part("c", "c2 begins, ", true, false)
	pod("d", Failed)
	part("c", "and ends", false, true)
	d.Log(line("a", "a3"))
	pod("a", Failed)
	d.Log(line("a", "a4"))
	pod("a", Failed)
	d.Event(Event{Type: "end", Message: "job x: failed"})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	want := `::group::pod a
a1
::endgroup::
pod b: failed
job x waits
::group::pod b
b1
::endgroup::
::group::pod c
c1
pod d: running
c2 begins, and ends
::endgroup::
pod d: failed
::group::pod a, continued
a2
a3
::endgroup::
pod a: failed
::group::pod a, continued
a4
::endgroup::
pod a: failed
job x: failed
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
}

// Whatever order lines come in, each is in a group of its pod, once and in order.
func TestGroupsLoseNothing(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var out bytes.Buffer
		d := NewGroups([]CI{GitHub, GitLab}[seed%2], nil, &out, io.Discard)
		pods, next := []string{"a", "b", "c", "d"}, map[string]int{}
		for range 60 {
			pod := pods[r.IntN(len(pods))]
			if r.IntN(15) == 0 {
				d.Event(Event{Type: "pod", Name: pod, State: string(Failed)})
			}
			d.Log(line(pod, pod+strings.Repeat("i", next[pod])+"."))
			next[pod]++
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		begins := regexp.MustCompile(`(?:::group::|\x1b\[0K)pod ([a-d])`)
		current, seen := "", map[string]int{}
		for l := range strings.Lines(out.String()) {
			if m := begins.FindStringSubmatch(l); m != nil {
				current = m[1]
			} else if strings.HasSuffix(l, ".\n") {
				if l != current+strings.Repeat("i", seen[current])+".\n" {
					t.Fatalf("seed %d: %q in the group of %s, of which %d were seen:\n%s", seed, l, current, seen[current], out.String())
				}
				seen[current]++
			}
		}
		for pod, n := range next {
			if seen[pod] != n {
				t.Errorf("seed %d: %d of %d lines of %s", seed, seen[pod], n, pod)
			}
		}
	}
}

func TestDetectCI(t *testing.T) {
	for variable, want := range map[string]CI{"GITHUB_ACTIONS": GitHub, "GITLAB_CI": GitLab, "CI": NoCI} {
		if got := DetectCI(func(name string) string {
			if name == variable {
				return "true"
			}
			return ""
		}); got != want {
			t.Errorf("%s: got %q", variable, got)
		}
	}
}
