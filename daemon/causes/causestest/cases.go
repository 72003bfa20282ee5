// Package causestest has one table of all causes for which a Job waits, ends or goes on, with what each view is to say of them.
// Tests of daemon/causes, of cmd/internal/submit and of cmd/internal/terminal read it, so that a new cause is written down once.
package causestest

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
)

// Now is the time of all cases.
var Now = time.Unix(1_700_000_000, 0)

// Start is what "jobctl submit" makes of a Job that does not run.
type Start string

const (
	// Waits: it waits, and says for what.
	Waits Start = "waits"
	// Cannot: it says at once that somebody has to change something, and gives up with --on-start-error=fail.
	Cannot Start = "cannot start"
	// CannotIfItLasts: the same, once it has been so for some seconds.
	CannotIfItLasts Start = "cannot start, if it lasts"
	// CannotAlone: the same as Cannot where nobody else can change anything, as in "jobd run".
	CannotAlone Start = "cannot start, where nobody else can change anything"
)

// Case is a Job in a state, with the cause of it.
type Case struct {
	Job   *batchv1.Job
	Pods  []*corev1.Pod
	World causes.World
	// Alone says that the only pod is in that state too, for the same reason.
	Alone bool
	// SetAside says that the daemon leaves the Job alone.
	SetAside bool

	// Reason is what every view says in a few words; empty where the state says all.
	Reason string
	// Help is part of a command that helps, or of a sentence; empty for none.
	Help  string
	Start Start
}

// Explain explains the Job as the daemon does.
func (c *Case) Explain() *why.Explanation {
	w := c.world()
	if c.SetAside {
		return causes.SetAside(w, "Job", c.Job, "jobd broke down while it was at work on it", false)
	}
	return causes.Job(w, c.Job, c.Pods)
}

// ExplainPod explains its first pod as the daemon does.
func (c *Case) ExplainPod() *why.Explanation { return causes.Pod(c.world(), c.Pods[0], c.Job) }

func (c *Case) world() causes.World {
	w := c.World
	w.Now, w.Source = Now, why.FromRecords
	return w
}

// Cases are all, by their names.
func Cases() map[string]Case {
	all := jobs()
	for name, row := range waiting() {
		if _, twice := all[name]; twice {
			panic(fmt.Sprintf("two cases are called %q", name))
		}
		j := newJob(func(j *batchv1.Job) { j.Status.Active = 1 })
		all[name] = Case{Job: j, Pods: []*corev1.Pod{row.pod}, World: row.world, Alone: true, Reason: row.reason, Help: row.help, Start: startOf(name)}
	}
	return all
}

func newJob(change func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n", UID: "u"}}
	j.Status.StartTime = ptr.To(metav1.NewTime(Now))
	change(j)
	return j
}
