package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/duty"
)

// filesKeptUntil returns until when a pod that has ended stays on the host because its files are to be kept; zero if it
// goes at once. Only what its containers have left is kept: not that of a pod that was evicted for it, or is being deleted,
// and not memory, which others count on once the pod has ended.
func filesKeptUntil(p *corev1.Pod, issued *Issued) time.Time {
	keep, err := core.KeepFiles(p.Annotations)
	if err != nil || keep == 0 || issued.filesDropped || p.DeletionTimestamp != nil || evicted(p) || core.InMemory(&p.Spec) {
		return time.Time{}
	}
	end := FilesEnd(p)
	if end.IsZero() {
		return time.Time{}
	}
	return end.Add(keep)
}

// dropFiles ends the time for which the files of a pod that has ended are kept, since they are more than it may keep.
func (f *folder) dropFiles(why string) {
	if !filesKeptUntil(f.pod, f.issued).IsZero() {
		f.issued.DropFiles()
		f.warnOnce(duty.Observation{Reason: "FilesNotKept", Message: why})
	}
}

// FilesEnd returns when the last container of a pod ended; zero if none has run.
func FilesEnd(p *corev1.Pod) (end time.Time) {
	for s := range podspec.Statuses(p) {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(end) {
			end = t.FinishedAt.Time
		}
	}
	return end
}

// DropFiles ends the time for which the files of a pod are kept.
func (i *Issued) DropFiles() { i.filesDropped = true }
