package pod

import (
	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/allotment"
)

// redefined reports whether the newest attempt of a container was started with another image than the one that the
// container has now (Container.Image may be changed).
func (c container) redefined() bool {
	is, wanted := c.status.Image, c.spec.Image
	if c.ephemeral || is == wanted {
		return false
	}
	running, err := reference.ParseDockerRef(is)
	if err != nil {
		return false // nobody can know
	}
	named, err := reference.ParseDockerRef(wanted)
	return err != nil || running.String() != named.String()
}

// replaced reports whether a container is to end because its image was changed, or its resources where its policy asks
// for that. An init container that comes to its end by itself is left alone.
func (c container) replaced(pod *corev1.Pod) bool {
	if !c.running() || c.init && !c.sidecar() {
		return false
	}
	return c.restartsToResize() && allotment.Admitted(pod) || c.redefined() && (!c.init || !isFalse(c.status.Started))
}

// replacing records events for the containers that are about to be stopped because they have changed.
func (f *folder) replacing() {
	workload(f.pod, func(c container) bool {
		i := f.issued.find(c.spec.Name)
		switch {
		case !c.replaced(f.pod) || i != nil && !i.stopping.IsZero():
		case !c.redefined():
			f.normal(c, "Killing", "Container "+c.spec.Name+" resize requires restart")
		case c.init:
			f.normal(c, "Killing", "Init container "+c.spec.Name+" definition changed")
		default:
			f.normal(c, "Killing", "Container "+c.spec.Name+" definition changed, will be restarted")
		}
		return true
	})
}

// replace stops containers whose image or resources have changed. They are started anew after that.
func (p *planner) replace() {
	var s stop
	if g := p.pod.Spec.TerminationGracePeriodSeconds; g != nil {
		s.grace = podspec.Seconds(*g)
	}
	workload(p.pod, func(c container) bool {
		if _, condemned := p.issued.condemned(p.pod, c); !c.replaced(p.pod) || condemned {
			return true
		}
		s.kill = p.now.Add(s.grace)
		if i := p.issued.find(c.spec.Name); i != nil && !i.stopping.IsZero() {
			s.kill = i.stopping.Add(s.grace)
		}
		p.end(c, int(c.status.RestartCount), true, s)
		return true
	})
}

// startsAgain reports whether a running container, whose end is being recorded, is started again whatever its restart
// policy says: it was changed, and nothing ends the pod.
func (f *folder) startsAgain(c container) bool {
	if c.init || !c.replaced(f.pod) {
		return false // a sidecar is restarted anyway
	}
	_, over := stopping(f.pod, f.now)
	return !over
}
