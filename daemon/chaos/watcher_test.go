package chaos

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/indexes"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// watcher holds every committed change against the rules, in order.
type watcher struct {
	*universe
	seen uint64 // the version up to which it has
	jobs map[string]*record
	pods map[string]*sight // by UID
}

// record is what was seen of a Job, by its UID.
type record struct {
	name      string
	last      *batchv1.Job // nil: it is gone
	meddled   bool         // a client has done something that changes how its pods are counted
	succeeded map[string]string
}

// sight is what was seen of a pod.
type sight struct {
	name, job, index string
	phase            corev1.PodPhase
	running          bool // in its status, and it is not to end
}

func newWatcher(u *universe) *watcher {
	return &watcher{universe: u, seen: store.FirstVersion, jobs: map[string]*record{}, pods: map[string]*sight{}}
}

// look looks at what was committed since, unless the daemon has ended meanwhile: the next one tells what was committed of it.
func (w *watcher) look() {
	w.T.Helper()
	var changes []store.Change
	err := w.Store.View(func(s *store.Snapshot) error {
		return s.Changes(w.seen, func(c store.Change) bool {
			changes = append(changes, c)
			return true
		})
	})
	if err != nil {
		w.T.Fatal(err)
	}
	if w.isDead() {
		return
	}
	for _, c := range changes {
		w.change(c)
		w.seen = c.Version
	}
	w.oneOfEachIndex()
}

// restarted checks that nothing that was committed is gone.
func (w *watcher) restarted() {
	w.T.Helper()
	err := w.Store.View(func(s *store.Snapshot) error {
		if s.Version() < w.seen {
			w.violated("version %d was committed, and after a restart the last one is %d", w.seen, s.Version())
		}
		return nil
	})
	if err != nil {
		w.T.Fatal(err)
	}
}

func (w *watcher) change(c store.Change) {
	made := 0
	if c.Previous == nil && !c.Deleted {
		made = 1
	}
	switch {
	case strings.HasPrefix(c.Object.Key, objects.JobSets+"/"):
		w.total.jobSets += made
	case strings.HasPrefix(c.Object.Key, objects.PodGroups+"/"):
		w.total.gangs += made
	case strings.HasPrefix(c.Object.Key, objects.Claims+"/"):
		w.total.claims += made
	case strings.HasPrefix(c.Object.Key, objects.Jobs+"/"):
		w.job(c)
	case strings.HasPrefix(c.Object.Key, objects.Pods+"/"):
		w.pod(c)
	}
}

var jobStatus = batch.JobKind().Subresources["status"]

// job holds a status that follows another one against the rules of KEP-3850 and KEP-4368, as the API does with what others write.
func (w *watcher) job(c store.Change) {
	j := &batchv1.Job{}
	if err := objects.Decode(c.Object, j); err != nil {
		w.T.Fatal(err)
	}
	uid := string(j.UID)
	rec := w.jobs[uid]
	if rec == nil {
		rec = &record{name: j.Name, succeeded: map[string]string{}}
		w.jobs[uid] = rec
		w.total.jobs++
	}
	if c.Deleted {
		rec.last = nil
		return
	}
	if before := rec.last; before != nil {
		if batch.AttemptOf(before.Annotations) != batch.AttemptOf(j.Annotations) {
			rec.meddled = true // what was counted begins anew
			rec.succeeded = map[string]string{}
		} else {
			was, is := j.DeepCopy(), j.DeepCopy() // the spec may have changed in the same commit, before the status
			was.ResourceVersion, is.ResourceVersion, was.Status = "1", "1", before.Status
			if resumed(j) { // its JobSet has resumed it in the commit in which it was suspended
				was.Status.StartTime = nil
			}
			for _, err := range jobStatus.ValidateUpdate(context.Background(), is, was) {
				w.violated("job %s, version %d: %v\nbefore %s\nafter  %s", j.Name, c.Version, err, asJSON(before.Status), asJSON(j.Status))
			}
		}
	}
	rec.last = j
}

// resumed reports whether the Job of a JobSet runs since it was resumed.
func resumed(j *batchv1.Job) bool {
	at := slices.IndexFunc(j.Status.Conditions, func(c batchv1.JobCondition) bool { return c.Type == batchv1.JobSuspended })
	return at >= 0 && len(j.OwnerReferences) > 0 && j.Status.Conditions[at].LastTransitionTime.Equal(j.Status.StartTime)
}

func asJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func (w *watcher) pod(c store.Change) {
	p := &corev1.Pod{}
	if err := objects.Decode(c.Object, p); err != nil {
		w.T.Fatal(err)
	}
	uid := string(p.UID)
	s := w.pods[uid]
	if s == nil {
		s = &sight{name: p.Name, job: p.Labels[batchv1.ControllerUidLabel], index: p.Annotations[batchv1.JobCompletionIndexAnnotation]}
		w.pods[uid] = s
		w.total.pods++
	}
	if c.Deleted {
		s.running = false
		return
	}
	if ended := s.phase == corev1.PodSucceeded || s.phase == corev1.PodFailed; ended && p.Status.Phase != s.phase {
		w.violated("pod %s was %s and is %s", p.Name, s.phase, p.Status.Phase)
	}
	s.phase = p.Status.Phase
	s.running = p.DeletionTimestamp == nil && !podspec.Ended(p) && p.Spec.NodeName != ""
	if rec := w.jobs[s.job]; rec != nil && s.phase == corev1.PodSucceeded {
		rec.succeeded[uid] = s.index
	}
}

// oneOfEachIndex: no two pods of an index run at a time, unless one of them is to end.
func (w *watcher) oneOfEachIndex() {
	run := map[string]string{}
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		s := w.pods[uid]
		if !s.running || s.job == "" || s.index == "" {
			continue
		}
		of := s.job + "/" + s.index
		if other := run[of]; other != "" {
			w.violated("pods %s and %s run for index %s", other, s.name, s.index)
		}
		run[of] = s.name
	}
}

// counts: what a Job says of its pods is what they were, once all has come to its end.
func (w *watcher) counts() {
	for _, rec := range w.jobs {
		j := rec.last
		if j == nil || rec.meddled || batch.End(&j.Status) == nil {
			continue
		}
		done := map[string]bool{}
		for uid, index := range rec.succeeded {
			if index == "" {
				index = uid
			}
			done[index] = true
		}
		needed := 0 // more may succeed while they are ended
		if batch.End(&j.Status).Type == batchv1.JobComplete && j.Spec.SuccessPolicy == nil {
			needed = int(ptr.Deref(j.Spec.Completions, 1))
		}
		if n := int(j.Status.Succeeded); n > len(done) || n < needed {
			w.violated("job %s has counted %d successes of %d: %s", j.Name, n, len(done), asJSON(j.Status))
		}
		indexes.EachRun(j.Status.CompletedIndexes, func(first, last int32) {
			for i := first; i <= last; i++ {
				if !done[strconv.Itoa(int(i))] {
					w.violated("job %s: index %d is completed by no pod", j.Name, i)
				}
			}
		})
	}
}
