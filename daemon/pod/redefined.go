package pod

import (
	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/podspec"
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

// replaced reports whether a container is to end because its image was changed. An init container that comes to its end
// by itself is left alone.
func (c container) replaced() bool {
	return c.running() && (!c.init || c.sidecar() && !isFalse(c.status.Started)) && c.redefined()
}

// replacing records events for the containers that are about to be stopped because they have another image.
func (f *folder) replacing() {
	workload(f.pod, func(c container) bool {
		i := f.issued.find(c.spec.Name)
		switch {
		case !c.replaced() || i != nil && !i.stopping.IsZero():
		case c.init:
			f.normal(c, "Killing", "Init container "+c.spec.Name+" definition changed")
		default:
			f.normal(c, "Killing", "Container "+c.spec.Name+" definition changed, will be restarted")
		}
		return true
	})
}

// replace stops containers whose image was changed. They are started anew after that.
func (p *planner) replace() {
	var s stop
	if g := p.pod.Spec.TerminationGracePeriodSeconds; g != nil {
		s.grace = podspec.Seconds(*g)
	}
	workload(p.pod, func(c container) bool {
		if _, condemned := p.issued.condemned(p.pod, c); !c.replaced() || condemned {
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
// policy says: its image was changed, and nothing ends the pod.
func (f *folder) startsAgain(c container) bool {
	if c.init || !c.replaced() {
		return false // a sidecar is restarted anyway
	}
	_, over := stopping(f.pod, f.now)
	return !over && f.pod.Status.Phase != corev1.PodSucceeded && f.pod.Status.Phase != corev1.PodFailed
}
