package causes

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/shares"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/daemon/requests"
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
	if len(r.Unfit) > 0 { // which is why there is no room for its gang
		all = v.unfit(&r)
	}
	if r.Gang != nil {
		all = append(all, v.gang(r.Gang)...)
	}
	switch {
	case len(r.Unfit) > 0:
	case len(r.Short) > 0 || len(r.Ports) > 0 || r.Full:
		all = append(all, v.room(&r))
	case len(r.Apart) > 0:
		c := v.obstacles("KeptApart", "The pods on this machine keep it waiting: ", &r, r.Apart)
		c.Causes = v.holders(&r)
		if first := v.firstEnd(&r); !first.IsZero() {
			c.Until = why.At(first)
		}
		all = append(all, c)
	case r.Clear():
		all = append(all, why.Cause{
			Type: "StartsSoon", Message: "There is room for it, so it is about to start.", Brief: "about to start",
		})
	}
	return all
}

// unfit is why this machine does not take a pod even if it is empty.
func (v *podView) unfit(r *prospect.Room) (all []why.Cause) {
	var rest []fit.Obstacle
	for _, o := range r.Unfit {
		if cause, is := v.pressed(o); is {
			all = append(all, cause)
		} else {
			rest = append(rest, o)
		}
	}
	if len(rest) > 0 {
		all = append(all, v.obstacles("NodeUnfit", "This machine does not take it: ", r, rest))
	}
	return all
}

// pressed is that the machine takes no pods for want of disk or memory, if that is what an obstacle is.
func (v *podView) pressed(o fit.Obstacle) (why.Cause, bool) {
	if o.Kind != fit.Tainted {
		return why.Cause{}, false
	}
	p, is := v.Pressed[o.Taint.Key]
	if !is {
		return why.Cause{}, false
	}
	what, c := "the disk of "+p.Path, why.Cause{
		Type: "DiskPressure", Details: map[string]string{"path": p.Path, "what": p.What}, Help: []string{"df -h " + p.Path, "jobctl image list"},
	}
	if o.Taint.Key == corev1.TaintNodeMemoryPressure {
		what, c = "the memory of the machine", why.Cause{
			Type: "MemoryPressure", Details: map[string]string{"what": p.What}, Help: []string{"jobctl top pods -A", "jobctl top node"},
		}
	}
	the := "T" + what[1:]
	if p.Short {
		c.Brief = what + " is full"
		c.Message = fmt.Sprintf("%s is nearly full (%s), so the machine takes no pods until it has room.", the, p.What)
	} else {
		c.Brief, c.Until, c.Since, c.Help = what+" was full just now", why.At(p.Until), why.At(p.Seen), nil
		c.Message = fmt.Sprintf("%s was nearly full (%s), so the machine takes no pods until it has had room for some "+
			"minutes (--eviction-pressure-transition-period).", the, p.What)
	}
	c.Message += fmt.Sprintf(" The taint %s shows that; it needs no toleration.", o.Taint.Key)
	return c, true
}

// obstacles tells some obstacles as one cause.
func (v *podView) obstacles(kind, begin string, r *prospect.Room, list []fit.Obstacle) why.Cause {
	c := why.Cause{Type: kind, Brief: list[0].Brief, Since: why.At(v.pod.CreationTimestamp.Time), Details: map[string]string{}}
	if len(list) > 1 {
		c.Brief += fmt.Sprintf(", and %d more", len(list)-1)
	}
	var messages, kinds, labels []string
	for _, o := range list {
		messages, kinds = append(messages, o.Message), append(kinds, string(o.Kind))
		labels = append(labels, o.Labels...)
		if o.Kind == fit.Cordoned {
			c.Help = append(c.Help, "jobctl uncordon "+r.Node)
		}
	}
	if len(labels) > 0 {
		c.Help = append(c.Help, "jobctl get nodes --show-labels", "jobctl label node "+r.Node+" --overwrite "+strings.Join(labels, " "))
	}
	c.Details["obstacles"] = strings.Join(kinds, ",")
	c.Message = begin + strings.Join(messages, "; ") + "."
	return c
}

func (v *podView) gang(g *prospect.GangWait) []why.Cause {
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
		c.Brief, c.Details["exists"] = "PodGroup "+name+" does not exist", "false"
		c.Message = "It waits for its PodGroup, which does not exist."
		c.Help = []string{"jobctl get workloads,podgroups" + why.InNamespace(v.pod.Namespace)}
	case g.Bound >= g.Need:
		return nil // the gang runs, and this is one more pod of it
	case g.Waiting+g.Bound < g.Need:
		c.Brief = fmt.Sprintf("gang %s: %d of %d pods are there", name, g.Waiting+g.Bound, g.Need)
		c.Message = fmt.Sprintf("It waits for its gang: %d pods have to start together, and only %d are there.", g.Need, g.Waiting+g.Bound)
	case g.Complete():
		return nil
	default:
		c.Brief = fmt.Sprintf("gang %s: room for %d of %d pods", name, g.Bound+g.Fitting, g.Need)
		c.Message = fmt.Sprintf("It waits for its gang: %d pods have to start together, and there is room for %d.", g.Need, g.Bound+g.Fitting)
	}
	return []why.Cause{c}
}

func (v *podView) room(r *prospect.Room) why.Cause {
	c := why.Cause{Type: "WaitsForRoom", Since: why.At(v.pod.CreationTimestamp.Time), Details: map[string]string{
		"place": fmt.Sprint(r.Place), "waiting": fmt.Sprint(r.Waiting), "priority": fmt.Sprint(r.Priority),
	}}
	var lacks []string
	hopeless := false
	for _, s := range r.Short {
		c.Details["request."+string(s.Resource)] = requests.Format(s.Resource, s.Request)
		c.Details["free."+string(s.Resource)] = requests.Format(s.Resource, s.Free)
		c.Details["allocatable."+string(s.Resource)] = requests.Format(s.Resource, s.Allocatable)
		if s.Request > s.Allocatable {
			if s.Allocatable == 0 && isDevice(s.Resource) {
				return v.noDevice(&c, s)
			}
			asked, has := requests.Human(s.Resource, s.Request), requests.Human(s.Resource, s.Allocatable)
			if asked == has {
				asked, has = requests.Format(s.Resource, s.Request), requests.Format(s.Resource, s.Allocatable)
			}
			if !hopeless {
				c.Brief = fmt.Sprintf("never fits: it requests %s of %s, and this machine has %s", asked, s.Resource, has)
			}
			hopeless = true
			lacks = append(lacks, fmt.Sprintf("it requests %s of %s, and this machine has only %s for all pods", asked, s.Resource, has))
			continue
		}
		lack := fmt.Sprintf("it requests %s of %s, and %s of %s is free", requests.Human(s.Resource, s.Request), s.Resource,
			requests.Human(s.Resource, s.Free), requests.Human(s.Resource, s.Allocatable))
		if s.Reserved > 0 {
			lack += fmt.Sprintf(" (%s is reserved for pods of a higher priority, for which others make way)", requests.Human(s.Resource, s.Reserved))
		}
		if s.Kept > 0 {
			lack += fmt.Sprintf(" (%s is kept for %s, which has waited for longer than --starvation-after)", requests.Human(s.Resource, s.Kept), v.kept(r))
			c.Details["kept."+string(s.Resource)] = requests.Format(s.Resource, s.Kept)
		}
		brief, used := v.inUse(&c, s)
		if used != "" {
			lack += " (" + used + ")"
		}
		c.Brief = cmp.Or(c.Brief, brief)
		if c.Brief == "" {
			c.Brief = fmt.Sprintf("no room for %s (%s free)", requests.Words(s.Resource, s.Request), requests.Human(s.Resource, s.Free))
		}
		lacks = append(lacks, lack)
	}
	if len(r.Ports) > 0 {
		lacks = append(lacks, fmt.Sprintf("other pods hold the host's ports %s", numbers(r.Ports)))
		c.Brief = cmp.Or(c.Brief, "host port "+numbers(r.Ports)+" is in use")
	}
	if r.Full {
		lacks = append(lacks, fmt.Sprintf("%d pods are on this machine, which is as many as it takes (--max-pods)", r.MaxPods))
		c.Brief = cmp.Or(c.Brief, fmt.Sprintf("%d pods are here already (--max-pods)", r.MaxPods))
	}
	if hopeless {
		c.Type = "NeverFits"
		c.Message = "It will never start here: " + strings.Join(lacks, "; ") + ". Lower its requests."
		return c
	}
	c.Message = fmt.Sprintf("It waits for room: %s. %s, with priority %d.", strings.Join(lacks, "; "), place(r.Place, r.Waiting), r.Priority)
	c.Message += fairly(r.Fair)
	if r.Nominated {
		c.Message += " Pods of a lower priority are being ended or paused for it."
	}
	if r.Kept != nil && r.Kept.Own {
		c.Details["kept"] = "true"
		c.Message += " It has waited for longer than --starvation-after, so what it needs is given to nobody behind it: it starts at the latest " +
			"when those that run now have ended."
	}
	switch f := v.Forecast; {
	case f == nil:
	case f.Starts != nil:
		c.Brief += ", " + f.Starts.Brief(v.Now)
		c.Message += fmt.Sprintf(" Its start is %s.", f.Starts.Brief(v.Now))
	default:
		c.Message += " Nobody knows when it starts: that depends on pods without a deadline, of which no earlier runs are known."
	}
	c.Causes = v.holders(r)
	if first := v.firstEnd(r); !first.IsZero() {
		c.Until = why.At(first)
		c.Message += " Some of what it lacks is free at the latest when the first of those that hold it reaches its deadline."
	}
	if v.job != nil && r.Place > 1 && v.Source == why.FromRecords {
		c.Help = append(c.Help, fmt.Sprintf("jobctl prioritize jobs/%s%s", v.job.Name, why.InNamespace(v.job.Namespace)))
	}
	return c
}

// fairly says what decides about the place of a pod among those of the same priority, if that is what everybody has used.
func fairly(f *prospect.FairPlace) string {
	if f == nil {
		return ""
	}
	used := func(a fairness.Account) string {
		out := "has used " + shares.MachineTime(a.Used) + " of the whole machine"
		if a.Share != 1 {
			out += fmt.Sprintf(", with a share of %g", a.Share)
		}
		return out
	}
	own := fmt.Sprintf(" The order is fair: %s %s of late", f.Own.Name, used(f.Own))
	if f.First.Name == f.Own.Name {
		return own + ", and comes first."
	}
	return own + "; whoever comes first " + used(f.First) + "."
}

// kept names the pod for which room is kept.
func (v *podView) kept(r *prospect.Room) string {
	if known, ok := v.Holders[r.Kept.First]; ok {
		return known.Object.String()
	}
	return "another pod"
}

// isDevice reports whether a resource is a kind of device, as nvidia.com/gpu is.
func isDevice(name corev1.ResourceName) bool {
	domain, _, found := strings.Cut(string(name), "/")
	return found && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

// noDevice is a kind of device of which the machine has none: those that jobd knows of are described in files.
func (v *podView) noDevice(c *why.Cause, s prospect.Shortage) why.Cause {
	c.Type, c.Brief = "DeviceMissing", fmt.Sprintf("no device %s is known on this machine", s.Resource)
	c.Message = fmt.Sprintf("It asks for %s of the device %s, and none is known on this machine: jobd offers the devices that CDI "+
		"files in /etc/cdi or /var/run/cdi describe, also of files that appear later.",
		requests.Format(s.Resource, s.Request), s.Resource)
	c.Help = []string{"ls /etc/cdi /var/run/cdi"}
	if strings.HasPrefix(string(s.Resource), "nvidia.com/") {
		c.Help = append(c.Help, "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml")
	}
	if kind, ok := strings.CutSuffix(string(s.Resource), ".shared"); ok {
		c.Message += fmt.Sprintf(" Those of %s are shared if jobd.yaml says so, which jobd reads when it starts.", kind)
		c.Help = append(c.Help, fmt.Sprintf("echo 'devices: {%s: {replicas: 4}}' | sudo tee -a /etc/jobd/jobd.yaml", kind))
	}
	return *c
}

// firstEnd returns when the first of the holders is ended by a deadline; zero if none is.
func (v *podView) firstEnd(r *prospect.Room) (first time.Time) {
	for _, h := range r.Holders {
		if ends := v.Holders[h.UID].Ends; !ends.IsZero() && (first.IsZero() || ends.Before(first)) {
			first = ends
		}
	}
	return first
}

func (v *podView) holders(r *prospect.Room) (all []why.Cause) {
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
				uses = append(uses, requests.Human(s.Resource, n)+" of "+string(s.Resource))
				details["request."+string(s.Resource)] = requests.Format(s.Resource, n)
			}
		}
		c := why.Cause{Type: "Holds", Object: &known.Object, Since: why.At(h.Started), Details: details}
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
			c.Until = why.At(known.Ends)
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

// place says where a pod stands among those that wait.
func place(at, of int) string {
	if of == 1 {
		return "No other pod waits"
	}
	return fmt.Sprintf("It is at place %d of the %d pods that wait", at, of)
}
