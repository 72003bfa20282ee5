package joblogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/store"
)

// podLogs finds and reads what containers wrote: ROOT/logs/NAMESPACE_POD_UID/CONTAINER/ATTEMPT.log.
type podLogs struct {
	dir   string
	store *store.Store
	node  string // the name of this machine
	// watcher is shared by all that follow a log. Nil: each has its own.
	watcher *logs.Watcher
	shares  *shares
}

func (l podLogs) podDir(p *corev1.Pod) string {
	return filepath.Join(l.dir, p.Namespace+"_"+p.Name+"_"+string(p.UID))
}

// Path returns the log file of an attempt of a container.
func (l podLogs) Path(p *corev1.Pod, container string, attempt int) string {
	return filepath.Join(l.podDir(p), container, strconv.Itoa(attempt)+".log")
}

// podOfDir splits the name of a pod's directory.
func podOfDir(dir string) (namespace, name, uid string, ok bool) {
	namespace, rest, _ := strings.Cut(dir, "_")
	name, uid, ok = strings.Cut(rest, "_")
	return namespace, name, uid, ok
}

// attemptOfFile returns the number of the attempt in the name of a log, rotated or not.
func attemptOfFile(name string) (int, bool) {
	number, rest, _ := strings.Cut(name, ".")
	n, err := strconv.Atoi(number)
	return n, err == nil && (rest == "log" || strings.HasPrefix(rest, "log."))
}

// Open implements api/server's Logs.
func (l podLogs) Open(ctx context.Context, p *corev1.Pod, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	if podspec.Elsewhere(p, l.node) && !clusters.Shown(p) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %q is on the node %q, and this machine is %q: what it prints is there",
			p.Name, p.Spec.NodeName, l.node))
	}
	attempt, err := l.attempt(ctx, p, o)
	if err != nil {
		return nil, err
	}
	path := l.Path(p, o.Container, attempt)
	if !logs.Exists(path) && clusters.Shown(p) {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("nothing that container %q of pod %q has printed in the cluster %s was brought here yet",
			o.Container, p.Name, p.Spec.NodeName))
	}
	if !logs.Exists(path) {
		return nil, apierrors.NewNotFound(corev1.Resource("pods/log"), p.Name)
	}
	options := readOptions(o)
	options.Watcher, options.Turn = l.watcher, l.shares.turn
	reading, stop := context.WithCancel(ctx)
	r, w := io.Pipe()
	ended := make(chan struct{})
	if o.Follow {
		go func() {
			defer close(ended)
			l.awaitEnd(reading, p, o.Container, attempt)
		}()
	}
	go func() {
		defer stop()
		w.CloseWithError(logs.Read(reading, path, options, w, ended))
	}()
	return logStream{r, stop}, nil
}

func readOptions(o *corev1.PodLogOptions) logs.Options {
	options := logs.Options{
		Follow:     o.Follow,
		TailLines:  o.TailLines,
		Timestamps: o.Timestamps,
		LimitBytes: o.LimitBytes,
	}
	if o.SinceSeconds != nil {
		options.Since = podspec.Seconds(*o.SinceSeconds)
	}
	if o.SinceTime != nil {
		options.SinceTime = o.SinceTime.Time
	}
	if o.Stream != nil && *o.Stream != corev1.LogStreamAll {
		// in the API the name of a stream begins with a capital letter
		options.Stream = logs.Stream(strings.ToLower(*o.Stream))
	}
	return options
}

type logStream struct {
	*io.PipeReader
	stop context.CancelFunc
}

func (s logStream) Close() error {
	s.stop()
	return s.PipeReader.Close()
}

// attempt returns which attempt of the container is requested; with Follow it waits for the first one.
func (l podLogs) attempt(ctx context.Context, p *corev1.Pod, o *corev1.PodLogOptions) (int, error) {
	var attempt int
	var refusal error
	err := l.watch(ctx, p, func(current *corev1.Pod) bool {
		attempt, refusal = attemptOf(current, o)
		return refusal == nil || !o.Follow || o.Previous || podspec.Ended(current)
	})
	switch {
	case errors.Is(err, errGone):
		return 0, apierrors.NewNotFound(corev1.Resource("pods"), p.Name)
	case err != nil:
		return 0, err
	}
	return attempt, refusal
}

func attemptOf(p *corev1.Pod, o *corev1.PodLogOptions) (int, error) {
	refuse := func(format string, args ...any) error {
		return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
	}
	status := podspec.ContainerStatus(p, o.Container)
	switch {
	case status == nil && !podspec.Bound(p):
		return 0, refuse("container %q in pod %q is waiting to start: the pod is not scheduled yet", o.Container,
			p.Name)
	case status == nil:
		return 0, refuse("container %q in pod %q is waiting to start: ContainerCreating", o.Container, p.Name)
	case o.Previous && status.RestartCount == 0:
		return 0, refuse("previous terminated container %q in pod %q not found", o.Container, p.Name)
	case o.Previous:
		return int(status.RestartCount) - 1, nil
	case status.ContainerID == "" && status.State.Waiting != nil:
		return 0, refuse("container %q in pod %q is waiting to start: %s", o.Container, p.Name,
			status.State.Waiting.Reason)
	case status.ContainerID == "":
		return 0, refuse("container %q in pod %q has not been started", o.Container, p.Name)
	}
	return int(status.RestartCount), nil
}

// awaitEnd returns when an attempt of a container has ended, or when ctx has.
func (l podLogs) awaitEnd(ctx context.Context, p *corev1.Pod, container string, attempt int) {
	_ = l.watch(ctx, p, func(current *corev1.Pod) bool {
		status := podspec.ContainerStatus(current, container)
		return status == nil || int(status.RestartCount) > attempt || status.State.Running == nil
	})
}

var errGone = errors.New("the pod is gone")

// watch calls enough with the pod as it is, and again after each change, until enough returns true.
func (l podLogs) watch(ctx context.Context, p *corev1.Pod, enough func(*corev1.Pod) bool) error {
	return watch(ctx, l.store, objects.Key(objects.Pods, p), func(o store.Object, ok bool) (bool, error) {
		if !ok || o.UID != string(p.UID) {
			return false, errGone
		}
		current := &corev1.Pod{}
		err := objects.Decode(o, current)
		return err == nil && enough(current), err
	})
}

// watch calls enough with the object at key, if there is one, and again after each change, until enough returns true.
func watch(ctx context.Context, s *store.Store, key string, enough func(o store.Object, ok bool) (bool, error)) error {
	cursor := s.Cursor(s.Version(), key)
	for {
		var over bool
		err := s.View(func(now *store.Snapshot) (err error) {
			over, err = enough(now.Get(key))
			return err
		})
		if err != nil || over {
			return err
		}
		if _, _, err := cursor.Next(ctx, 1); err != nil && !errors.Is(err, store.ErrCompacted) {
			return err
		}
		if at := s.Version(); at > cursor.At() {
			cursor = s.Cursor(at, key)
		}
	}
}
