package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/testdata/oracle"
)

// life is a scenario as it is played here.
type life struct {
	d *daemon
	*oracle.Scenario
	dir string // on the host: its gate, and what the pods remember
	err error

	mu     sync.Mutex
	states []oracle.Revision
	pods   []*corev1.Pod // as last seen, in the order of creation
	gone   map[types.UID]bool
	opened map[types.UID]bool
	done   int // how many actions are
	events []corev1.Event
}

func (l *life) namespace() string { return "or-" + l.Name }

// manifest returns the scenario's, with the gate in front of its commands.
func (l *life) manifest() *batchv1.Job {
	j := l.Manifest.DeepCopy()
	spec := &j.Spec.Template.Spec
	for i := range spec.Volumes {
		spec.Volumes[i].HostPath.Path = filepath.Join(l.dir, "memory")
	}
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "gate", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: l.gate()}}})
	for i := range spec.Containers {
		c := &spec.Containers[i]
		if len(c.Command) < 3 || c.Image != busyboxThere {
			continue
		}
		if l.Name == "workqueue" {
			c.Command[2] = "exit 0" // it derives from the pod's name how long to sleep: there, none slept
		}
		c.Command[2] = "until [ -e /gate/$POD ]; do sleep 0.05; done; " + trap.ReplaceAllString(c.Command[2], "$0 : > /gate/$$POD.traps;")
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "gate", MountPath: "/gate"})
		c.Env = append(c.Env, corev1.EnvVar{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
	}
	if l.Name == "deadline" {
		j.Spec.ActiveDeadlineSeconds = ptr.To[int64](30) // by then its pods run, even though all scenarios begin at once
	}
	return j
}

// trap matches where a command begins to catch the signal that a deletion sends.
var trap = regexp.MustCompile(`trap '[^']*' TERM;`)

const busyboxThere = "registry.k8s.io/e2e-test-images/busybox:1.37.0-2"

// ended returns when a recorded pod became terminal, 1e9 for never.
func (l *life) ended(pod string) float64 {
	for _, c := range l.Pods.Timelines[pod] {
		if c.Phase == string(corev1.PodSucceeded) || c.Phase == string(corev1.PodFailed) {
			return c.T
		}
	}
	return 1e9
}

// deleted returns when the deletion of a recorded pod was asked for, 0 for never.
func (l *life) deleted(pod string) float64 {
	for _, c := range l.Pods.Timelines[pod] {
		if c.Deletion != nil {
			return c.T
		}
	}
	return 0
}

// pod returns the pod that stands for the n-th recorded one: the one of the same index with as many before it, or nil
// if there is none yet.
func (l *life) pod(n int) *corev1.Pod {
	index := ptr.Deref(l.Pods.Summary[n].Index, "")
	before := 0
	for _, p := range l.Pods.Summary[:n] {
		if ptr.Deref(p.Index, "") == index {
			before++
		}
	}
	for _, p := range l.pods {
		if p.Annotations[batchv1.JobCompletionIndexAnnotation] == index {
			if before == 0 {
				return p
			}
			before--
		}
	}
	return nil
}

// play does what users did, each action when the Job is as it was then, and returns when all is as it was at the end.
func (l *life) play() error {
	ctx := l.d.t.Context()
	if err := os.Mkdir(l.gate(), 0o755); err != nil {
		return err
	}
	if _, err := l.d.CoreV1().Namespaces().Create(
		ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace()}}, metav1.CreateOptions{},
	); err != nil {
		return err
	}
	jobs, pods := l.d.BatchV1().Jobs(l.namespace()), l.d.CoreV1().Pods(l.namespace())
	if _, err := jobs.Create(ctx, l.manifest(), metav1.CreateOptions{}); err != nil {
		return err
	}
	for n, a := range l.Pods.Actions {
		if len(a.Action) == 0 {
			continue
		}
		what, _ := a.Action[0].(string)
		if what != "running" {
			if err := l.await(fmt.Sprintf("%v at %v", a.Action, a.T), func() bool { return l.like(a.T) && l.ready() }); err != nil {
				return err
			}
		}
		var err error
		switch what {
		case "running":
			err = l.await(fmt.Sprint(a.Action), func() bool {
				running := 0
				for _, p := range l.pods {
					if p.Status.Phase == corev1.PodRunning {
						running++
					}
				}
				return float64(running) >= a.Action[1].(float64)
			})
		case "patch":
			var patch []byte
			if patch, err = json.Marshal(a.Action[1]); err == nil {
				_, err = jobs.Patch(ctx, l.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			}
		case "delete":
			err = jobs.Delete(ctx, l.Name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletionPropagation(a.Action[1].(string)))})
		case "delete pod":
			err = pods.Delete(ctx, l.named(a.Action[1].(string)), metav1.DeleteOptions{})
		case "evict":
			err = pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: l.named(a.Action[1].(string))}})
		default:
			err = errors.New("an unknown action")
		}
		if err != nil {
			return fmt.Errorf("%v: %w", a.Action, err)
		}
		l.mu.Lock()
		l.done = n + 1
		l.open()
		l.mu.Unlock()
	}
	l.mu.Lock()
	l.done = len(l.Pods.Actions)
	l.mu.Unlock()
	if err := l.await("the end of the Job", func() bool {
		last := l.Timeline[len(l.Timeline)-1]
		return l.like(last.T) && (last.Event == "DELETED") == l.isGone()
	}); err != nil {
		return err
	}
	if err := l.await("the end of the pods", func() bool {
		for n, p := range l.Pods.Summary {
			if q := l.pod(n); q == nil || l.gone[q.UID] != p.Gone && !different[l.Name].terminating || q.Status.Phase != p.FinalPhase {
				return false
			}
		}
		return true
	}); err != nil {
		return err
	}
	list, err := l.d.CoreV1().Events(l.namespace()).List(ctx, metav1.ListOptions{})
	if err == nil {
		l.mu.Lock()
		l.events = list.Items
		l.mu.Unlock()
	}
	return err
}

// named returns the name of the pod here that stands for a recorded one.
func (l *life) named(recorded string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := slices.IndexFunc(l.Pods.Summary, func(p oracle.Pod) bool { return p.Name == recorded })
	return l.pod(n).Name
}

// await waits until something is so.
func (l *life) await(what string, is func() bool) error {
	so := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open()
		return len(l.states) > 0 && is()
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if so() {
			return nil
		}
	}
	return fmt.Errorf("not within %v: %s", patience, what)
}

// unnamed replaces the names of pods by what the recorded pod and the one here have in common.
func (l *life) unnamed(s string) string {
	s = l.AnyPod(s)
	for n, recorded := range l.Pods.Summary {
		what := "(pod of index " + ptr.Deref(recorded.Index, "-") + ")"
		s = strings.ReplaceAll(s, recorded.Name, what)
		if p := l.pod(n); p != nil {
			s = strings.ReplaceAll(s, p.Name, what)
		}
	}
	return s
}
