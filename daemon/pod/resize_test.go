package pod

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/daemon/allotment"
	"github.com/jobd/jobd/daemon/duty"
)

// sized is what a container with that request and limit of memory has.
func sized(memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}

// resizes is a pod whose containers run with 1Gi of memory each.
func resizes(t *testing.T, names ...string) *life {
	l := newLife(t, newPod(corev1.RestartPolicyOnFailure, names...))
	l.pod.Spec.TerminationGracePeriodSeconds = seconds64(5)
	var started []duty.Observation
	for i := range l.pod.Spec.Containers {
		l.pod.Spec.Containers[i].Resources = sized("1Gi")
		started = append(started, l.started(names[i], 0))
	}
	l.turn()
	l.turn(started...)
	return l
}

// ask gives a container other resources, as the API does, and tells what the node says to that.
func (l *life) ask(name, memory string, v Verdict) {
	l.pod.Generation++
	find(l.pod, name).spec.Resources = sized(memory)
	if !WantsResize(l.pod) {
		l.t.Error("nobody is asked whether there is room")
	}
	l.decide(v)
}

func (l *life) decide(v Verdict) {
	l.events = append(l.events, Admit(l.pod, &l.issued, v, l.now).Events...)
}

// resized is what a worker reports that was told to resize the pod as it is.
func (l *life) resized() duty.Observation {
	pod := allotment.Of(l.pod)
	o := duty.Observation{What: duty.Resized, OK: true, Resized: &duty.Resizing{Whole: pod.Spec.Resources}}
	for _, a := range Newest(pod) {
		if RestartsToResize(pod, a.Container.Name) {
			o.Resized.Partial = true
		} else if a.Running {
			o.Resized.Containers = append(o.Resized.Containers, duty.ResizedContainer{
				Name: a.Container.Name, Attempt: a.Number, Resources: a.Container.Resources,
			})
		}
	}
	return o
}

// has checks which memory containers have by the status, and which they are to be started with.
func (l *life) has(name, now, next string) {
	l.t.Helper()
	is, will := find(l.pod, name).status.Resources, find(allotment.Of(l.pod), name).spec.Resources
	if !equality.Semantic.DeepEqual(*is, sized(now)) || !equality.Semantic.DeepEqual(will, sized(next)) {
		l.t.Errorf("%s has %v and is to have %v, want %s and %s", name, is, will, now, next)
	}
}

func (l *life) count(reason string) (n int) {
	for _, e := range l.events {
		if e.Reason == reason {
			n++
		}
	}
	return n
}

func TestResize(t *testing.T) {
	deferred := Verdict{Reason: corev1.PodReasonDeferred, Message: "no room"}
	for rule, test := range map[string]func(t *testing.T){
		"what is admitted is carried out, and shown when it is done": func(t *testing.T) {
			l := resizes(t, "c")
			l.ask("c", "2Gi", Verdict{})
			l.has("c", "1Gi", "2Gi")
			if got := find(l.pod, "c").status.AllocatedResources.Memory().String(); got != "2Gi" {
				t.Errorf("allocated %s", got)
			}
			l.want(l.turn(), "Resize")
			l.condition(corev1.PodResizeInProgress, "True")
			l.want(l.turn())
			l.want(l.turn(l.resized()))
			l.has("c", "2Gi", "2Gi")
			l.condition(corev1.PodResizeInProgress, "missing")
			const summary = `: {"containers":[{"name":"c","resources":{"limits":{"memory":"2Gi"},"requests":{"memory":"2Gi"}}}],"generation":2}`
			l.saw(1, "ResizeStarted", "Pod resize started"+summary)
			l.saw(1, "ResizeCompleted", "Pod resize completed"+summary)
			if WantsResize(l.pod) {
				t.Error("the node is asked once more")
			}
		},
		"what is not admitted changes nothing, not even at a restart": func(t *testing.T) {
			l := resizes(t, "c")
			l.ask("c", "2Gi", deferred)
			l.has("c", "1Gi", "1Gi")
			l.condition(corev1.PodResizePending, "True Deferred")
			l.want(l.turn(l.exited("c", 0, 1)), "Resize", "Launch c/1")
			l.has("c", "1Gi", "1Gi")
			l.decide(deferred)
			if n := l.count("ResizeDeferred"); n != 1 {
				t.Errorf("%d events", n)
			}
			l.decide(Verdict{})
			l.condition(corev1.PodResizePending, "missing")
			l.condition(corev1.PodResizeInProgress, "True")
			l.has("c", "2Gi", "2Gi") // it does not run
		},
		"what is taken back is forgotten": func(t *testing.T) {
			l := resizes(t, "c")
			l.ask("c", "2Gi", Verdict{Reason: corev1.PodReasonInfeasible, Message: "never"})
			l.condition(corev1.PodResizePending, "True Infeasible")
			l.ask("c", "1Gi", Verdict{})
			l.condition(corev1.PodResizePending, "missing")
			l.condition(corev1.PodResizeInProgress, "missing")
			l.has("c", "1Gi", "1Gi")
		},
		"a policy restarts the container, and the others are resized meanwhile": func(t *testing.T) {
			l := resizes(t, "c", "d")
			l.pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{
				{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
			}
			l.pod.Spec.Containers[1].Resources = sized("3Gi")
			l.ask("c", "2Gi", Verdict{})
			l.want(l.turn(), "SIGTERM c/0", "Resize")
			l.saw(1, "Killing", "Container c resize requires restart")
			l.want(l.turn(l.resized()))
			l.has("c", "1Gi", "2Gi")
			l.has("d", "3Gi", "3Gi")
			l.want(l.turn(l.exited("c", 0, 0)), "Resize", "Launch c/1")
			l.condition(corev1.PodResizeInProgress, "True")
			started := l.started("c", 1)
			r := sized("2Gi")
			started.Resources = &r
			l.want(l.turn(l.resized(), started), "Resize")
			l.want(l.turn(l.resized()))
			l.has("c", "2Gi", "2Gi")
			l.state("c", "running/1")
			l.condition(corev1.PodResizeInProgress, "missing")
		},
		"a container that was started with the resources from before is resized too": func(t *testing.T) {
			l := newLife(t, newPod(corev1.RestartPolicyNever, "c"))
			l.pod.Spec.Containers[0].Resources = sized("1Gi")
			l.want(l.turn(), "Launch c/0")
			l.ask("c", "2Gi", Verdict{})
			l.want(l.turn(), "Resize")
			o := l.resized()
			started, before := l.started("c", 0), sized("1Gi")
			started.Resources = &before
			l.want(l.turn(o, started), "Resize")
			l.has("c", "1Gi", "2Gi")
			l.want(l.turn(l.resized()))
			l.has("c", "2Gi", "2Gi")
			l.condition(corev1.PodResizeInProgress, "missing")
		},
		"a failure is shown, and tried again after a while": func(t *testing.T) {
			l := resizes(t, "c")
			l.ask("c", "1Mi", Verdict{})
			l.want(l.turn(), "Resize")
			l.want(l.turn(duty.Observation{What: duty.Resized, Message: "too little"}))
			l.condition(corev1.PodResizeInProgress, "True Error")
			l.has("c", "1Gi", "1Mi")
			if n := l.count("ResizeError"); n != 1 {
				t.Errorf("%d events", n)
			}
			l.wait(l.wake.Sub(l.now))
			l.want(l.turn(), "Resize")
			l.want(l.turn(duty.Observation{What: duty.Resized, Message: "too little"}))
			if n := l.count("ResizeError"); n != 1 {
				t.Errorf("%d events of the same", n)
			}
			l.ask("c", "1Gi", Verdict{})
			l.want(l.turn(), "Resize") // at once
			l.want(l.turn(l.resized()))
			l.condition(corev1.PodResizeInProgress, "missing")
		},
		"a resize that is under way is taken back by one for which there is no room": func(t *testing.T) {
			l := resizes(t, "c")
			l.ask("c", "2Gi", Verdict{})
			l.want(l.turn(), "Resize")
			done := l.resized()
			l.ask("c", "9Gi", deferred)
			l.has("c", "1Gi", "1Gi")
			if got := find(l.pod, "c").status.AllocatedResources.Memory().String(); got != "1Gi" {
				t.Errorf("allocated %s", got)
			}
			l.condition(corev1.PodResizeInProgress, "missing")
			l.turn(done) // it has come too late to be called off
			l.has("c", "2Gi", "2Gi")
		},
		"it is done once more after the daemon was killed": func(t *testing.T) {
			l := resizes(t, "c")
			l.ask("c", "2Gi", Verdict{})
			l.want(l.turn(), "Resize")
			l.issued = Issued{}
			if WantsResize(l.pod) {
				t.Error("the node is asked again")
			}
			l.want(l.turn(), "Resize")
			l.turn(l.resized())
			l.condition(corev1.PodResizeInProgress, "missing")
		},
		"what can never be is said once, and what has come of it anew": func(t *testing.T) {
			l := resizes(t, "c")
			never := Verdict{Reason: corev1.PodReasonInfeasible, Message: "never"}
			l.ask("c", "9Gi", never)
			l.decide(never)
			if n := l.count("ResizeInfeasible"); n != 1 {
				t.Errorf("%d events", n)
			}
			l.decide(Verdict{Reason: corev1.PodReasonInfeasible, Message: "never, since"})
			if c := conditions.Find(l.pod.Status.Conditions, corev1.PodResizePending); c.Message != "never, since" {
				t.Errorf("%+v", c)
			}
			if n := l.count("ResizeInfeasible"); n != 1 {
				t.Errorf("%d events of the same", n)
			}
			l.decide(deferred)
			l.decide(never)
			l.ask("c", "8Gi", never)
			if n, m := l.count("ResizeInfeasible"), l.count("ResizeDeferred"); n != 3 || m != 1 {
				t.Errorf("%d and %d events", n, m)
			}
		},
		"the resources of the whole pod are resized with it": func(t *testing.T) {
			l := newLife(t, newPod(corev1.RestartPolicyOnFailure, "c"))
			whole := sized("1Gi")
			l.pod.Spec.Resources = &whole
			l.turn()
			l.turn(l.started("c", 0))
			has := func(now, allocated string) {
				t.Helper()
				s := &l.pod.Status
				if !equality.Semantic.DeepEqual(*s.Resources, sized(now)) || s.AllocatedResources.Memory().String() != allocated {
					t.Errorf("it has %v and is allocated %v, want %s and %s", s.Resources, s.AllocatedResources, now, allocated)
				}
			}
			whole = sized("2Gi")
			l.pod.Generation++
			l.decide(Verdict{})
			has("1Gi", "2Gi")
			l.want(l.turn(), "Resize")
			l.turn(l.resized())
			has("2Gi", "2Gi")
			l.condition(corev1.PodResizeInProgress, "missing")
			whole = sized("3Gi")
			l.pod.Generation++
			l.decide(Verdict{})
			has("2Gi", "3Gi")
			whole = sized("4Gi")
			l.pod.Generation++
			l.decide(deferred) // and what was under way is taken back
			has("2Gi", "2Gi")
		},
		"a pod that ends shows none": func(t *testing.T) {
			l := resizes(t, "c")
			l.ask("c", "2Gi", deferred)
			l.turn(l.exited("c", 0, 0))
			l.phase(corev1.PodSucceeded)
			l.condition(corev1.PodResizePending, "missing")
			l = resizes(t, "c")
			l.ask("c", "2Gi", Verdict{})
			l.want(l.turn(), "Resize")
			l.turn(l.exited("c", 0, 0))
			l.phase(corev1.PodSucceeded)
			l.condition(corev1.PodResizeInProgress, "missing")
		},
	} {
		t.Run(rule, test)
	}
}

func TestAllocatedReturnsThePodItselfWhereNothingIsResized(t *testing.T) {
	l := resizes(t, "c", "init:i")
	l.wait(time.Second)
	l.turn()
	if allotment.Of(l.pod) != l.pod {
		t.Error("it is copied")
	}
	for _, e := range l.events {
		if strings.HasPrefix(e.Reason, "Resize") {
			t.Errorf("event %v", e)
		}
	}
}
