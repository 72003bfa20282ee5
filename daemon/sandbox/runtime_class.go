package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/store"
)

// Runtimes are the OCI runtimes that pods can choose from.
type Runtimes interface {
	// Handler returns the one of a handler's name (RuntimeClass.Handler), once it is known to work here.
	Handler(ctx context.Context, name string) (runtime.Handler, error)
}

// RuntimeClass finds the OCI runtime of a pod that names a class (PodSpec.RuntimeClassName). It remains the pod's for as
// long as the pod is here, whatever becomes of the class and of the configuration: it is recorded in dir, in a file for
// each such pod.
func RuntimeClass(objects Objects, runtimes Runtimes, dir string) worker.Step {
	records := handlerRecords(dir)
	return worker.Step{
		Name:   "runtime-class",
		Reason: "FailedCreatePodSandBox",
		SetUp: func(ctx context.Context, p *corev1.Pod, sandbox *worker.Sandbox) (err error) {
			if p.Spec.RuntimeClassName == nil {
				return nil
			}
			if sandbox.Handler, err = records.read(p.UID); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			class, err := objects.runtimeClass(*p.Spec.RuntimeClassName)
			if err != nil {
				return err
			}
			handler, err := runtimes.Handler(ctx, class.Handler)
			if err != nil {
				return err
			}
			sandbox.Handler = &handler
			return records.write(p.UID, sandbox.Handler)
		},
		TearDown: func(_ context.Context, uid types.UID) error { return records.remove(uid) },
		Held:     held(records.list),
	}
}

func (o Objects) runtimeClass(name string) (class *nodev1.RuntimeClass, err error) {
	if err := o.Store.View(func(s *store.Snapshot) (err error) {
		class, err = storage.RuntimeClass(s, name)
		return err
	}); err != nil {
		return nil, err
	}
	if class == nil {
		return nil, fmt.Errorf("RuntimeClass %q not found", name)
	}
	return class, nil
}

// handlerRecords is the directory with the OCI runtimes of pods, by UID.
type handlerRecords string

func (dir handlerRecords) path(uid types.UID) string { return filepath.Join(string(dir), string(uid)) }

// read returns fs.ErrNotExist where there is no record.
func (dir handlerRecords) read(uid types.UID) (*runtime.Handler, error) {
	content, err := os.ReadFile(dir.path(uid))
	h := &runtime.Handler{}
	if err == nil {
		err = json.Unmarshal(content, h)
	}
	if err != nil {
		return nil, fmt.Errorf("OCI runtime of the pod: %w", err)
	}
	return h, nil
}

func (dir handlerRecords) write(uid types.UID, h *runtime.Handler) error {
	content, err := json.Marshal(h)
	if err == nil {
		err = os.MkdirAll(string(dir), 0o700)
	}
	if err == nil {
		err = files.Replace(dir.path(uid), content, 0o600)
	}
	if err != nil {
		return fmt.Errorf("record the OCI runtime of the pod: %w", err)
	}
	return nil
}

func (dir handlerRecords) remove(uid types.UID) error {
	for _, path := range []string{dir.path(uid), dir.path(uid) + files.Unfinished} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("OCI runtime of the pod: %w", err)
		}
	}
	return nil
}

func (dir handlerRecords) list() (uids []string, err error) {
	entries, err := os.ReadDir(string(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		uids = append(uids, strings.TrimSuffix(e.Name(), files.Unfinished))
	}
	return uids, err
}
