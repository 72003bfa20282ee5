package pod

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/runtime"
)

// TestCases plays the files of testdata/cases: what is observed of a pod, what its worker is asked for, and what its status
// says. With -rewrite it writes down what is decided now. CONTRIBUTING.md says how a case is written.
func TestCases(t *testing.T) {
	datadriven.Walk(t, "testdata/cases", func(t *testing.T, path string) {
		var p *play
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "pod" {
				p = &play{life: newLife(t, podOf(t, d)), first: true, hidden: !d.HasArg("conditions")}
				return p.play()
			}
			if d.Cmd != "then" {
				d.Fatalf(t, "%s is neither pod nor then", d.Cmd)
			}
			p.t = t
			var seen []duty.Observation
			for line := range strings.Lines(d.Input) {
				if line = strings.TrimSpace(line); line != "" {
					seen = append(seen, p.line(line)...)
				}
			}
			return p.play(seen...)
		})
	})
}

// podOf returns the pod that a case begins with. Its spec is the input; it has one container, c, a grace of 30 s and
// the restart policy Never unless it says otherwise. "pod unbound" is one that waits for a node.
func podOf(t *testing.T, d *datadriven.TestData) *corev1.Pod {
	pod := newPod(corev1.RestartPolicyNever)
	pod.Spec.TerminationGracePeriodSeconds = seconds64(30)
	read(t, d.Input, &pod.Spec)
	if len(pod.Spec.Containers) == 0 {
		pod.Spec.Containers = []corev1.Container{{Name: "c"}}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			list[i].Image = "busybox"
		}
	}
	if d.HasArg("unbound") {
		pod.Spec.NodeName = ""
	}
	return pod
}

func read(t *testing.T, manifest string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(manifest), into); err != nil {
		t.Fatalf("%s: %v", manifest, err)
	}
}

// play is a case that is being played.
type play struct {
	*life
	first bool
	// hidden are the conditions of the first turn, which are the same for nearly all pods: "pod conditions" shows them.
	hidden bool
	// failures is the last launch that failed.
	failures []duty.Observation
}

// sentences are what may happen to a pod. Their first word is the container, or "pod" or "jobd".
var sentences = []struct {
	form *regexp.Regexp
	do   func(p *play, c string, words []string) []duty.Observation
}{
	{form(`after (\S+)`), func(p *play, _ string, w []string) []duty.Observation {
		d, err := time.ParseDuration(w[0])
		if err != nil {
			p.t.Fatal(err)
		}
		p.wait(d)
		return nil
	}},
	{form(`edit (.*)`), func(p *play, _ string, w []string) []duty.Observation {
		read(p.t, w[0], &p.pod.Spec)
		return nil
	}},
	{form(`the launch's failure is told of again`), func(p *play, _ string, _ []string) []duty.Observation { return p.failures }},
	{form(`jobd restarts`), func(p *play, _ string, _ []string) []duty.Observation {
		p.issued = Issued{}
		return nil
	}},
	{form(`jobd restarts and finds (\S+) (running|exited with (\d+))`), func(p *play, _ string, w []string) []duty.Observation {
		name, attempt := p.attempt(w[0])
		if c := find(p.pod, name); !c.running() {
			attempt = c.next()
		}
		code, _ := strconv.Atoi(w[2])
		held := p.started(name, attempt).Status
		if held.State = runtime.Running; w[1] != "running" {
			held = p.exited(name, attempt, code).Status
			held.State = runtime.Exited
		}
		held.ID = runtime.ContainerID(string(p.pod.UID), name, attempt)
		p.issued = Issued{}
		return Recover(p.pod, []runtime.Status{held}, false, p.now)
	}},
	{form(`the host reboots`), func(p *play, _ string, _ []string) []duty.Observation {
		p.issued = Issued{}
		return Recover(p.pod, nil, true, p.now)
	}},
	{form(`pod is deleted within (\S+)`), func(p *play, _ string, w []string) []duty.Observation {
		d, err := time.ParseDuration(w[0])
		if err != nil {
			p.t.Fatal(err)
		}
		p.delete(d)
		return nil
	}},
	{form(`pod is set up`), func(*play, string, []string) []duty.Observation {
		return []duty.Observation{{What: duty.SetUp, IPs: []string{"10.0.0.9"}}}
	}},
	{form(`pod is torn down`), func(*play, string, []string) []duty.Observation { return []duty.Observation{{What: duty.TornDown}} }},
	{form(`pod is evicted: (.*)`), func(_ *play, _ string, w []string) []duty.Observation {
		return []duty.Observation{{What: duty.Evicted, Message: w[0]}}
	}},
	{form(`pod is preempted`), func(*play, string, []string) []duty.Observation { return []duty.Observation{{What: duty.Preempted}} }},
	{form(`the host goes down within (\S+)`), func(p *play, _ string, w []string) []duty.Observation {
		d, err := time.ParseDuration(w[0])
		if err != nil {
			p.t.Fatal(err)
		}
		return []duty.Observation{{What: duty.HostStops, Took: d}}
	}},
	{form(`the host stays up after all`), func(*play, string, []string) []duty.Observation { return []duty.Observation{{What: duty.HostStays}} }},
	{form(`(\S+) starts`), func(p *play, c string, _ []string) []duty.Observation {
		name, attempt := p.attempt(c)
		return []duty.Observation{p.started(name, attempt)}
	}},
	{form(`(\S+) starts, an image with the stop signal (\S+)`), func(p *play, c string, w []string) []duty.Observation {
		name, attempt := p.attempt(c)
		o := p.started(name, attempt)
		o.Image.Config.StopSignal = w[0]
		return []duty.Observation{o}
	}},
	{form(`(\S+) exits with (\d+)( for want of memory)?`), func(p *play, c string, w []string) []duty.Observation {
		name, attempt := p.attempt(c)
		code, err := strconv.Atoi(w[0])
		if err != nil {
			p.t.Fatal(err)
		}
		o := p.exited(name, attempt, code)
		o.Status.OOMKilled = w[1] != ""
		return []duty.Observation{o}
	}},
	{form(`(\S+) cannot be executed: (.*)`), func(p *play, c string, w []string) []duty.Observation {
		name, attempt := p.attempt(c)
		o := p.exited(name, attempt, 128)
		o.Status.StartError, o.Status.StartedAt = w[0], time.Time{}
		return []duty.Observation{o}
	}},
	{form(`(\S+) pulls its image`), func(p *play, c string, _ []string) []duty.Observation {
		return []duty.Observation{{What: duty.Pulling, Container: c}}
	}},
	{form(`(\S+) has pulled its image in (\S+)`), func(p *play, c string, w []string) []duty.Observation {
		took, err := time.ParseDuration(w[0])
		if err != nil {
			p.t.Fatal(err)
		}
		return []duty.Observation{{What: duty.Pulled, Container: c, Took: took, Image: runtime.Image{Size: 77}}}
	}},
	{form(`(\S+) has taken its image from (\S+) in (\S+)`), func(p *play, c string, w []string) []duty.Observation {
		took, err := time.ParseDuration(w[1])
		if err != nil {
			p.t.Fatal(err)
		}
		return []duty.Observation{{What: duty.Pulled, Container: c, Took: took, Image: runtime.Image{Size: 77, Engine: w[0]}}}
	}},
	{form(`(\S+) cannot be launched: (\w+): (.*)`), func(p *play, c string, w []string) []duty.Observation {
		name, attempt := p.attempt(c)
		o := p.failed(name, attempt, w[0], w[1])
		o.UID, o.At = p.pod.UID, p.now
		p.failures = []duty.Observation{o}
		return p.failures
	}},
	{form(`(\S+) cannot be set up: (\w+): (.*)`), func(_ *play, c string, w []string) []duty.Observation {
		return []duty.Observation{{What: duty.SetUpFailed, Container: c, Reason: w[0], Message: w[1]}}
	}},
	{form(`(\S+) is rejected: (\w+): (.*)`), func(_ *play, c string, w []string) []duty.Observation {
		return []duty.Observation{{What: duty.Rejected, Container: c, Reason: w[0], Message: w[1]}}
	}},
	{form(`(\S+) is called off`), func(p *play, c string, _ []string) []duty.Observation {
		name, attempt := p.attempt(c)
		return []duty.Observation{{What: duty.Dropped, Container: name, Attempt: attempt}}
	}},
	{form(`(\S+) is lost`), func(p *play, c string, _ []string) []duty.Observation {
		name, attempt := p.attempt(c)
		return []duty.Observation{{What: duty.Lost, Container: name, Attempt: attempt}}
	}},
	{form(`(\S+) (passes|fails) (Startup|Readiness|Liveness|PostStart|PreStop)(?:: (.*))?`), func(p *play, c string, w []string) []duty.Observation {
		name, attempt := p.attempt(c)
		o := duty.Observation{What: duty.Checked, Container: name, Attempt: attempt, Check: duty.Check(w[1]), Verdict: true, Message: w[2]}
		o.OK = w[0] == "passes"
		return []duty.Observation{o}
	}},
}

func form(s string) *regexp.Regexp { return regexp.MustCompile("^" + s + "$") }

// line makes what one line of a case says happen. What it returns is observed at the end of the block.
func (p *play) line(line string) []duty.Observation {
	for _, s := range sentences {
		words := s.form.FindStringSubmatch(line)
		if words == nil {
			continue
		}
		container := ""
		if strings.HasPrefix(s.form.String(), `^(\S+) `) {
			container, words = words[1], words[1:]
		}
		seen := s.do(p, container, words[1:])
		for i := range seen {
			if seen[i].UID == "" {
				seen[i].UID, seen[i].At = p.pod.UID, p.now
			}
		}
		return seen
	}
	p.t.Fatalf("what is %q?", line)
	return nil
}

// attempt returns the container of "c", whose newest attempt is meant, or of "c/2".
func (p *play) attempt(c string) (name string, attempt int) {
	name, number, given := strings.Cut(c, "/")
	if given {
		n, err := strconv.Atoi(number)
		if err != nil {
			p.t.Fatal(err)
		}
		return name, n
	}
	found := find(p.pod, name)
	if found.status == nil {
		p.t.Fatalf("there is no container %s", name)
	}
	if i := p.issued.find(name); i != nil && i.launched > 0 {
		return name, i.launched - 1
	}
	if found.running() {
		return name, int(found.status.RestartCount)
	}
	return name, found.next()
}

// play takes one turn of the loop and says what is asked for, what has changed in the status, and when to look again.
func (p *play) play(seen ...duty.Observation) string {
	before, events := p.pod.DeepCopy(), len(p.events)
	said := p.turn(seen...)
	say := func(format string, args ...any) { said = append(said, strings.TrimSpace(fmt.Sprintf(format, args...))) }
	for _, e := range p.events[events:] {
		if e.Reason != "Created" { // it comes with Started
			say("event %s %s: %s", e.Type, e.Reason, e.Message)
		}
	}
	was, now := &before.Status, &p.pod.Status
	if now.Phase != was.Phase || p.first {
		say("phase %s", now.Phase)
	}
	if now.Reason != was.Reason || now.Message != was.Message {
		say("because %s: %s", now.Reason, now.Message)
	}
	containers(p.pod, func(c container) bool {
		if before := find(before, c.spec.Name).status; c.status != nil && (before == nil || state(c.status) != state(before)) {
			say("%s %s", c.spec.Name, state(c.status))
		}
		return true
	})
	for _, c := range now.Conditions {
		before := conditions.Find(was.Conditions, c.Type)
		if !p.hidden && (before == nil || before.Status != c.Status || before.Reason != c.Reason) {
			say("%s=%s %s", c.Type, c.Status, c.Reason)
		}
	}
	if !p.wake.IsZero() {
		say("look again in %s", p.wake.Sub(p.now))
	}
	if Done(p.pod) && !Done(before) {
		say("done")
	}
	if len(said) == 0 {
		say("nothing")
	}
	p.first, p.hidden = false, false
	return strings.Join(said, "\n") + "\n"
}

// state describes the state of a container.
func state(s *corev1.ContainerStatus) string {
	said := ""
	switch s := s.State; {
	case s.Running != nil:
		said = "running"
	case s.Terminated != nil:
		said = fmt.Sprintf("%s, exit code %d", s.Terminated.Reason, s.Terminated.ExitCode)
	case s.Waiting != nil:
		said = strings.TrimSpace("waiting " + s.Waiting.Reason)
		if s.Waiting.Message != "" {
			said += fmt.Sprintf(" %q", s.Waiting.Message)
		}
	}
	if s.RestartCount > 0 {
		said += fmt.Sprintf(", restarts %d", s.RestartCount)
	}
	if last := s.LastTerminationState.Terminated; last != nil {
		said += fmt.Sprintf(", before: %s, exit code %d", last.Reason, last.ExitCode)
	}
	return said
}
