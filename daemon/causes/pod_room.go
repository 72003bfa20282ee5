package causes

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/node"
)

// shown is how many holders are listed.
const shown = 5

// podRoom is what a pod waits for before it may start on this machine.
func podRoom(v *podView) []why.Cause {
	r, ok := v.Rooms[v.pod.UID]
	if !ok || v.pod.Spec.NodeName != "" {
		return nil
	}
	var all []why.Cause
	if r.Gang != nil {
		all = append(all, v.gang(r.Gang)...)
	}
	switch {
	case len(r.Unfit) > 0:
		c := why.Cause{Type: "NodeUnfit", Message: "This machine does not take it: " + strings.Join(r.Unfit, "; ") + "."}
		for _, reason := range r.Unfit {
			switch {
			case strings.Contains(reason, "cordoned"):
				c.Help = append(c.Help, "jobctl uncordon --selector kubernetes.io/hostname")
			case strings.Contains(reason, "label"):
				c.Help = append(c.Help, "jobctl get nodes --show-labels")
			}
		}
		all = append(all, c)
	case len(r.Short) > 0 || len(r.Ports) > 0 || r.Full:
		all = append(all, v.room(&r))
	case r.Gang == nil:
		all = append(all, why.Cause{Type: "StartsSoon", Message: "There is room for it, so it is about to start."})
	}
	return all
}

func (v *podView) gang(g *node.GangWait) []why.Cause {
	_, name, _ := strings.Cut(g.Key, "/")
	c := why.Cause{
		Type: "WaitsForGang", Object: &why.Reference{Kind: "PodGroup", Namespace: v.pod.Namespace, Name: name},
		Details: map[string]string{
			"minCount": fmt.Sprint(g.Need), "bound": fmt.Sprint(g.Bound), "waiting": fmt.Sprint(g.Waiting),
			"fitting": fmt.Sprint(g.Fitting),
		},
	}
	switch {
	case !g.Known:
		c.Message = "It waits for its PodGroup, which does not exist."
		c.Help = []string{"jobctl get workloads,podgroups" + inNamespace(v.pod.Namespace)}
	case g.Bound >= g.Need:
		return nil // the gang runs, and this is one more pod of it
	case g.Waiting+g.Bound < g.Need:
		c.Message = fmt.Sprintf("It waits for its gang: %d pods have to start together, and only %d are there.", g.Need, g.Waiting+g.Bound)
	default:
		c.Message = fmt.Sprintf("It waits for its gang: %d pods have to start together, and there is room for %d.", g.Need, g.Bound+g.Fitting)
	}
	return []why.Cause{c}
}

func (v *podView) room(r *node.Room) why.Cause {
	c := why.Cause{Type: "WaitsForRoom", Since: at(v.pod.CreationTimestamp.Time), Details: map[string]string{
		"place": fmt.Sprint(r.Place), "waiting": fmt.Sprint(r.Waiting), "priority": fmt.Sprint(r.Priority),
	}}
	var lacks []string
	hopeless := false
	for _, s := range r.Short {
		c.Details["request."+string(s.Resource)] = amount(s.Resource, s.Request)
		c.Details["free."+string(s.Resource)] = amount(s.Resource, s.Free)
		c.Details["allocatable."+string(s.Resource)] = amount(s.Resource, s.Allocatable)
		if s.Request > s.Allocatable {
			hopeless = true
			lacks = append(lacks, fmt.Sprintf("it requests %s of %s, and this machine has only %s for all pods",
				amount(s.Resource, s.Request), s.Resource, amount(s.Resource, s.Allocatable)))
			continue
		}
		lack := fmt.Sprintf("it requests %s of %s, and %s of %s is free", amount(s.Resource, s.Request), s.Resource,
			amount(s.Resource, s.Free), amount(s.Resource, s.Allocatable))
		if s.Reserved > 0 {
			lack += fmt.Sprintf(" (%s is reserved for pods of a higher priority, for which others make way)", amount(s.Resource, s.Reserved))
		}
		lacks = append(lacks, lack)
	}
	if len(r.Ports) > 0 {
		lacks = append(lacks, fmt.Sprintf("other pods hold the host's ports %s", numbers(r.Ports)))
	}
	if r.Full {
		lacks = append(lacks, fmt.Sprintf("%d pods are on this machine, which is as many as it takes (--max-pods)", r.MaxPods))
	}
	if hopeless {
		c.Type = "NeverFits"
		c.Message = "It will never start here: " + strings.Join(lacks, "; ") + ". Lower its requests."
		return c
	}
	c.Message = fmt.Sprintf("It waits for room: %s. It is at place %d of the %d pods that wait, with priority %d.",
		strings.Join(lacks, "; "), r.Place, r.Waiting, r.Priority)
	if r.Nominated {
		c.Message += " Pods of a lower priority are being ended for it."
	}
	c.Causes = v.holders(r)
	if first := v.firstEnd(r); !first.IsZero() {
		c.Until = at(first)
		c.Message += " Some of what it lacks is free at the latest when the first of those that hold it reaches its deadline."
	}
	if v.job != nil && r.Place > 1 && v.Source == why.FromRecords {
		c.Help = append(c.Help, fmt.Sprintf("jobctl prioritize jobs/%s%s", v.job.Name, inNamespace(v.job.Namespace)))
	}
	return c
}

// firstEnd returns when the first of the holders is ended by a deadline; zero if none is.
func (v *podView) firstEnd(r *node.Room) (first time.Time) {
	for _, h := range r.Holders {
		if ends := v.Holders[h.UID].Ends; !ends.IsZero() && (first.IsZero() || ends.Before(first)) {
			first = ends
		}
	}
	return first
}

func (v *podView) holders(r *node.Room) (all []why.Cause) {
	others := 0
	for _, h := range r.Holders {
		known, ok := v.Holders[h.UID]
		if !ok || len(all) == shown {
			others++
			continue
		}
		var uses []string
		details := map[string]string{"priority": fmt.Sprint(h.Priority)}
		for _, s := range r.Short {
			if n := h.Requests[s.Resource]; n > 0 {
				uses = append(uses, amount(s.Resource, n)+" of "+string(s.Resource))
				details["request."+string(s.Resource)] = amount(s.Resource, n)
			}
		}
		c := why.Cause{Type: "Holds", Object: &known.Object, Since: at(h.Started), Details: details}
		c.Message = "is on the machine"
		if len(uses) > 0 {
			c.Message = "holds " + strings.Join(uses, " and ")
		}
		if h.Priority != r.Priority {
			c.Message += fmt.Sprintf(", with priority %d", h.Priority)
		}
		switch {
		case h.Ending:
			c.Message += ", and is ending."
		case !known.Ends.IsZero():
			c.Message += ", and has a deadline."
			c.Until = at(known.Ends)
		default:
			c.Message += ", and has no deadline."
		}
		all = append(all, c)
	}
	if others > 0 {
		word := "pods hold"
		if others == 1 {
			word = "pod holds"
		}
		if len(all) > 0 {
			word = "more " + word
		}
		all = append(all, why.Cause{Type: "OthersHold", Message: fmt.Sprintf("%d %s the rest.", others, word)})
	}
	return all
}

func numbers(list []int32) string {
	var all []string
	for _, n := range list {
		all = append(all, fmt.Sprint(n))
	}
	return strings.Join(all, ", ")
}

// amount formats an amount of a resource as the API does.
func amount(name corev1.ResourceName, n int64) string {
	switch {
	case name == corev1.ResourceCPU:
		return resource.NewMilliQuantity(n, resource.DecimalSI).String()
	case name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
		return resource.NewQuantity(n, resource.BinarySI).String()
	}
	return resource.NewQuantity(n, resource.DecimalSI).String()
}
