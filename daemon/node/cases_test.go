package node

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/daemon/requests"
)

// TestCases plays the files of testdata/cases: what happens on a node, and what is decided for that. With -rewrite it
// writes down what is decided now. CONTRIBUTING.md says how a case is written.
func TestCases(t *testing.T) {
	datadriven.Walk(t, "testdata/cases", func(t *testing.T, path string) {
		var p *play
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "node":
				p = newPlay(t, d)
			case "then":
				p.t = t
			default:
				d.Fatalf(t, "%s is neither node nor then", d.Cmd)
			}
			p.said = nil
			for line := range strings.Lines(d.Input) {
				p.line(strings.TrimSpace(line))
			}
			p.decide()
			if len(p.said) == 0 {
				p.say("nothing")
			}
			return strings.Join(p.said, "\n") + "\n"
		})
	})
}

// play is a case that is being played.
type play struct {
	t       *testing.T
	node    *Node
	pods    map[string]*corev1.Pod
	created int64
	said    []string
}

// newPlay makes the node that a case begins with: "node cpu=2 memory=100 pods=9", which is the default.
func newPlay(t *testing.T, d *datadriven.TestData) *play {
	pods, allocatable := 9, requests.Resources{"cpu": 2000, "memory": 100}
	starvation := 0
	for _, arg := range d.CmdArgs {
		switch value := arg.Vals[0]; arg.Key {
		case "pods":
			pods = number(t, value)
		case "starvation": // in seconds
			starvation = number(t, value)
		default:
			set(t, allocatable, arg.Key, value)
		}
	}
	p := &play{t: t, node: New(pods, allocatable), pods: map[string]*corev1.Pod{}}
	p.node.StarvationAfter = time.Duration(starvation) * time.Second
	return p
}

func number(t *testing.T, value string) int {
	n, err := strconv.Atoi(value)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// set puts an amount as manifests write it into resources.
func set(t *testing.T, r requests.Resources, name, value string) {
	q, err := resource.ParseQuantity(value)
	if err != nil {
		t.Fatalf("%s=%s: %v", name, value, err)
	}
	if r[corev1.ResourceName(name)] = q.Value(); name == "cpu" {
		r["cpu"] = q.MilliValue()
	}
}

func (p *play) say(format string, args ...any) { p.said = append(p.said, fmt.Sprintf(format, args...)) }

// line does what one line of a case says: a verb, a name, and what is said of it.
func (p *play) line(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	if verb == "object" { // the Node object
		node := &corev1.Node{}
		p.read(rest, node)
		p.node.Describe(node)
		return
	}
	name, rest, _ := strings.Cut(rest, " ")
	manifest := ""
	if i := strings.Index(rest, "{"); i >= 0 {
		rest, manifest = rest[:i], rest[i:]
	}
	said := map[string]string{}
	for _, word := range strings.Fields(rest) {
		key, value, _ := strings.Cut(word, "=")
		said[key] = value
	}
	uid := types.UID(name)
	take := func(key string) (string, bool) {
		value, ok := said[key]
		delete(said, key)
		return value, ok
	}
	switch verb {
	case "wait": // a pod is created
		_, nominated := take("nominated")
		p.node.Wait(p.pod(name, said, manifest), nominated)
	case "run": // a pod is found, bound to the node
		_, ending := take("ending")
		at, _ := take("since")
		since := time.Time{}
		if at != "" {
			since = time.Unix(int64(number(p.t, at)), 0)
		}
		p.node.Bound(p.pod(name, said, manifest), since, ending)
	case "freeze": // the containers of a pod were frozen
		p.node.Freeze(uid, Pause{Frozen: true, Stands: true})
	case "found": // as a pod was that is found, bound to the node, at a start
		since, _ := take("displaced")
		_, held := take("held")
		if since == "" {
			since = "0"
		}
		p.node.Displaced(uid, time.Unix(int64(number(p.t, since)), 0), held)
		_, frozen := take("frozen")
		p.node.Freeze(uid, Pause{Frozen: frozen, Stands: frozen || since != "0"})
	case "gone": // it has ended, or was deleted
		p.node.Gone(uid)
	case "group":
		g := Group{}
		if least, ok := take("gang"); ok {
			g.Gang, g.MinCount = true, number(p.t, least)
		}
		_, g.All = take("all")
		p.node.SetGroup(GroupKey("ns", name), g)
	case "left": // that many pods of a gang are left
		n, _ := take("pods")
		p.node.Resize(GroupKey("ns", name), number(p.t, n))
	case "resize": // a pod on the node asks for something else
		_, keep := take("keep")
		if reason, message := p.node.Allocate(uid, p.pod(name, said, manifest), keep); reason != "" {
			p.say("%s stays as it is, %s: %s", name, reason, message)
		} else {
			p.say("%s is resized", name)
		}
	case "yield": // the room that is kept for resizes of a namespace
		p.node.Yield(name)
	case "critical": // a critical pod that is bound to this node by name
		victims, refusal := p.node.MakeRoom(p.pod(name, said, manifest))
		if refusal != nil {
			p.say("refuse %s: %s", name, refusal.Message)
		}
		if len(victims) > 0 {
			p.say("evict %s for %s", list(victims), name)
		}
	case "ask": // whether there is room for a pod that is bound to this node by name
		if refusal := p.node.Refuses(p.pod(name, said, manifest)); refusal != nil {
			p.say("no room for %s: %s", name, refusal.Message)
		} else {
			p.say("room for %s", name)
		}
	case "at": // the time, in seconds
		p.node.At(time.Unix(int64(number(p.t, name)), 0))
	case "kept": // for which pod room is kept
		p.decide()
		if first, since, by := p.node.Keeps(); first == "" {
			p.say("room is kept for nobody")
		} else if by.IsZero() {
			p.say("room is kept for %s since %d", first, since.Unix())
		} else {
			p.say("room is kept for %s since %d, which has it by %d", first, since.Unix(), by.Unix())
		}
	case "why":
		p.decide()
		if why := p.node.Why(uid); why != "" {
			p.say("%s: %s", name, why)
		} else {
			p.say("%s does not wait", name)
		}
	default:
		p.t.Fatalf("what is %q?", verb)
	}
	for key := range said {
		p.t.Fatalf("%s: what is %s of %s?", verb, key, name)
	}
}

func (p *play) read(manifest string, into any) {
	p.t.Helper()
	if err := yaml.UnmarshalStrict([]byte(manifest), into); err != nil {
		p.t.Fatalf("%s: %v", manifest, err)
	}
}

// pod returns a pod of a name: as it was described before, or, with a description, as that says.
func (p *play) pod(name string, said map[string]string, spec string) *Pod {
	p.t.Helper()
	pod := &corev1.Pod{}
	if was := p.pods[name]; was != nil {
		pod.CreationTimestamp = was.CreationTimestamp
	} else {
		p.created++
		pod.CreationTimestamp.Time = time.Unix(p.created, 0)
	}
	pod.UID, pod.Namespace, pod.Name = types.UID(name), "ns", name
	pod.Spec.Containers = []corev1.Container{{Name: "c"}}
	if spec != "" {
		p.read(spec, &pod.Spec)
	}
	requests := corev1.ResourceList{}
	_, pausable := said["pausable"]
	delete(said, "pausable")
	for key, value := range said {
		switch delete(said, key); key {
		case "priority":
			n := int32(number(p.t, value))
			pod.Spec.Priority = &n
		case "created":
			pod.CreationTimestamp.Time = time.Unix(int64(number(p.t, value)), 0)
		case "group":
			pod.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &value}
		case "polite":
			never := corev1.PreemptNever
			pod.Spec.PreemptionPolicy = &never
		case "qos":
			pod.Status.QOSClass = corev1.PodQOSClass(value)
		case "deadline":
			seconds := int64(number(p.t, value))
			pod.Spec.ActiveDeadlineSeconds, pod.Spec.TerminationGracePeriodSeconds = &seconds, new(int64)
		case "always":
			pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		default:
			q, err := resource.ParseQuantity(value)
			if err != nil {
				p.t.Fatalf("%s: %s=%s: %v", name, key, value, err)
			}
			requests[corev1.ResourceName(key)] = q
		}
	}
	if len(requests) > 0 {
		pod.Spec.Containers[0].Resources.Requests = requests
	}
	p.pods[name] = pod
	made := PodOf(pod)
	made.Pausable = pausable
	return made
}

// decide takes all decisions that can be taken, and says what they are.
func (p *play) decide() {
	for step, ok := p.node.Next(nil); ok; step, ok = p.node.Next(nil) {
		if len(step.Bind) > 0 {
			p.say("bind %s", list(step.Bind))
		}
		if len(step.Continue) > 0 {
			p.say("continue %s", list(step.Continue))
		}
		if len(step.Pause) > 0 {
			p.say("pause %s", list(step.Pause))
		}
		if len(step.Victims) > 0 {
			p.say("preempt %s", list(step.Victims))
		}
		if len(step.Nominate) > 0 {
			p.say("nominate %s", list(step.Nominate))
		}
	}
}

func list(uids []types.UID) string {
	var names []string
	for _, uid := range slices.Sorted(slices.Values(uids)) {
		names = append(names, string(uid))
	}
	return strings.Join(names, ", ")
}
