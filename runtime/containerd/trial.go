package containerd

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/layout"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// trialPrefix begins the ids of trials, which are containers that no pod has.
const trialPrefix = layout.TrialPrefix

// trialTime is for an OCI runtime that hangs. A host that has just been started is busy, and a trial is no race.
const trialTime = time.Minute

// runTrial starts a container of no pod, as a pod's is started: by a shard, with the limits, the devices and a seccomp
// profile, nil for the default one. Its program is the shards' own, with one flag. It is taken away when started returns,
// which gets its id and the path of its log.
func runTrial(ctx context.Context, c Config, s *shard.Shard, runtime, flag string, profile *specs.LinuxSeccomp, started func(id, log string) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	rootfs, err := os.MkdirTemp(c.State, trialPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(rootfs)
	id, log := filepath.Base(rootfs), rootfs+".log"
	defer os.Remove(log)
	spec, err := trialSpec(c, id, flag, profile)
	if err != nil {
		return err
	}
	defer func() {
		_, deleteErr := s.Delete(context.WithoutCancel(ctx), id)
		err = errors.Join(err, deleteErr)
	}()
	_, err = s.Start(ctx, protocol.Start{
		ID: id, Spec: spec, Runtime: runtime, LogPath: log,
		Rootfs: []protocol.Mount{{Type: "bind", Source: rootfs, Options: []string{"rbind", "rw"}}},
	})
	var failed *protocol.StartError
	if errors.As(err, &failed) {
		return errors.New(failed.Message)
	} else if err != nil {
		return err
	}
	return started(id, log)
}

// removeTrials removes the directories of trials that an earlier process was killed in. Their containers go with all others
// that no pod has.
func removeTrials(state string) error {
	left, err := filepath.Glob(layout.State(state).Trials())
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

func trialSpec(c Config, id, flag string, profile *specs.LinuxSeccomp) ([]byte, error) {
	host, err := oci.ReadHost()
	if err != nil {
		return nil, err
	}
	container := corev1.Container{Name: "trial", Command: []string{"/jobd-shim", flag}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}}
	pod.Name, pod.Namespace = "trial", Namespace
	mounts := []specs.Mount{{Type: "bind", Source: c.ShimPath, Destination: "/jobd-shim", Options: []string{"bind", "ro"}}}
	for _, dir := range []string{"/lib", "/lib64"} { // it need not be a static binary
		if _, err := os.Stat(dir); err == nil {
			mounts = append(mounts, specs.Mount{Type: "bind", Source: dir, Destination: dir, Options: []string{"rbind", "ro"}})
		}
	}
	spec, err := oci.Spec(oci.Input{
		Pod: pod, Container: &pod.Spec.Containers[0], CgroupPath: c.CgroupParent + "/" + id, Host: host, Mounts: mounts,
		SeccompDefault: profile == nil,
	})
	if err != nil {
		return nil, err
	}
	if profile != nil {
		spec.Linux.Seccomp = profile
	}
	if err := oci.ResolveUser(spec, nil, nil); err != nil {
		return nil, err
	}
	return json.Marshal(spec)
}
