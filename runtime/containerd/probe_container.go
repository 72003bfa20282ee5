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

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/oci"
	"github.com/jobd/jobd/runtime/shard"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// probePrefix begins the IDs of probe containers, which try something out on this host and belong to no pod.
const probePrefix = layout.ProbePrefix

// probeTime bounds a probe whose OCI runtime hangs. It is generous, since a host that has just been started is busy.
const probeTime = time.Minute

// runProbe starts a probe container in the same way as a pod's: by a shard, with limits, devices and a seccomp profile,
// the default one if profile is nil. The container runs the shards' own program with one flag. Once it runs, started is
// called with its ID and the path of its log; the container is removed when started returns.
func runProbe(
	ctx context.Context, c Config, s *shard.Shard, runtime ociRuntime, flag string, profile *specs.LinuxSeccomp,
	started func(id, log string) error,
) (err error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	rootfs, err := os.MkdirTemp(c.State, probePrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(rootfs)
	id, log := filepath.Base(rootfs), rootfs+".log"
	defer os.Remove(log)
	spec, err := probeSpec(c, id, flag, profile)
	if err != nil {
		return err
	}
	defer func() {
		_, deleteErr := s.Delete(context.WithoutCancel(ctx), id)
		err = errors.Join(err, deleteErr)
	}()
	_, err = s.Start(ctx, protocol.Start{
		ID: id, Spec: spec, LogPath: log,
		Runtime: runtime.Path, RuntimeArgs: runtime.Args, ForeignRuntime: runtime.foreign(),
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

// removeProbes removes the directories of probes during which an earlier process was killed. Their containers are
// removed with all others that belong to no pod.
func removeProbes(state string) error {
	left, err := filepath.Glob(layout.State(state).Probes())
	for _, path := range left {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}

func probeSpec(c Config, id, flag string, profile *specs.LinuxSeccomp) ([]byte, error) {
	host, err := oci.ReadHost()
	if err != nil {
		return nil, err
	}
	container := corev1.Container{Name: "probe", Command: []string{"/jobd-shim", flag}}
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{container}}}
	pod.Name, pod.Namespace = "probe", namespace
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
