package volume

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/oci"
)

func TestNothingElseMayBeMountedAtADeclaredVolume(t *testing.T) {
	v := newVolumes(t)
	pod := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/mine"})
	c := &pod.Spec.Containers[0]
	c.TerminationMessagePath = "/dev/message"
	declared := map[string]struct{}{}
	for _, place := range []string{
		"/mine/", "/mine/below", "/etc/hosts", "/dev/message", "/data", "/data/", "//data/.", "data", "relative/path", "/a/../../up", "/",
	} {
		declared[place] = struct{}{}
	}
	mounts, err := v.Declared(context.Background(), pod, c, 0, declared, []specs.Mount{{Destination: "/mine"}}, oci.Files{Hosts: "h", TerminationLog: "l"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range mounts {
		if info, err := os.Stat(m.Source); err != nil || !info.IsDir() {
			t.Errorf("%s: %v, %v", m.Destination, info, err)
		}
		got = append(got, m.Destination)
	}
	if want := "/ /data /mine/below /relative/path /up"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// A config of a megabyte may declare 50,000 volumes.
func TestDeclaredVolumesAreBounded(t *testing.T) {
	v := newVolumes(t)
	pod := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/mine"})
	declared := map[string]struct{}{}
	for i := range maxDeclared {
		declared["/v/"+strconv.Itoa(i)] = struct{}{}
	}
	if mounts, err := v.Declared(context.Background(), pod, &pod.Spec.Containers[0], 0, declared, nil, oci.Files{}); err != nil || len(mounts) != maxDeclared {
		t.Errorf("as many as there may be: %d, %v", len(mounts), err)
	}
	declared["/one/more"] = struct{}{}
	if _, err := v.Declared(context.Background(), pod, &pod.Spec.Containers[0], 1, declared, nil, oci.Files{}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("one more: %v", err)
	}
	if left, err := os.ReadDir(v.declaredPod(string(pod.UID))); err != nil || len(left) > 0 {
		t.Errorf("left are %d directories, %v", len(left), err)
	}
}

func TestNoVolumeIsDeclaredInProc(t *testing.T) {
	v := newVolumes(t)
	pod := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, corev1.VolumeMount{MountPath: "/mine"})
	for _, place := range []string{"/proc", "proc/self", "/x/../proc/self/"} {
		mounts, err := v.Declared(context.Background(), pod, &pod.Spec.Containers[0], 0, map[string]struct{}{place: {}}, nil, oci.Files{})
		if err == nil || !strings.Contains(err.Error(), "/proc") {
			t.Errorf("%s: %v, %v", place, mounts, err)
		}
	}
}
