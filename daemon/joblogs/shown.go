package joblogs

import (
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/store"
)

// Keep implements api/server's ShownLogs: it takes in lines of a container of a pod that shows one of a cluster, and returns where its log ends
// then. They are kept and bounded as if the container had written them here. Without lines it only says where the log ends.
func (k *Logs) Keep(p *corev1.Pod, container string, attempt int, after clusters.LogEnd, lines []byte) (clusters.LogEnd, error) {
	if !clusters.Shown(p) {
		return after, apierrors.NewBadRequest(fmt.Sprintf("pod %q shows none of a cluster, and nobody but its containers writes their logs", p.Name))
	}
	k.keeping.Lock()
	defer k.keeping.Unlock()
	path := k.Path(p, container, attempt)
	end, err := endOf(path)
	if err != nil || len(lines) == 0 {
		return end, err
	}
	if !end.Time.Equal(after.Time) || end.Lines != after.Lines {
		return end, apierrors.NewConflict(corev1.Resource("pods/log"), p.Name, fmt.Errorf("the log of container %q ends elsewhere", container))
	}
	if there := k.attempts(newLogRecord(p), container); attempt < 0 || len(there) > 0 && attempt <= there[len(there)-1]-keptAttempts {
		return end, apierrors.NewBadRequest(fmt.Sprintf("only the last %d attempts of a container are kept", keptAttempts))
	}
	if err := k.Begin(p, container, attempt); err != nil {
		return end, err
	}
	if there, err := k.exists(store.Key(objects.Pods, p.Namespace, p.Name), p.UID); err != nil || !there {
		k.PodGone(p) // once more, since a directory was made after it was gone
		if err == nil {
			err = apierrors.NewNotFound(corev1.Resource("pods"), p.Name)
		}
		return end, err
	}
	if err := files.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return end, err
	}
	last := end.Time // of which the rest may come of a line that was too long
	if last.IsZero() {
		last = k.now()
	}
	if err := logs.Append(path, k.limit, lines, last); err != nil {
		return end, err
	}
	return endOf(path)
}

func endOf(path string) (end clusters.LogEnd, err error) {
	end.Time, end.Lines, err = logs.End(path)
	return end, err
}
