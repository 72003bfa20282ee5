package oci

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
)

const (
	passwdFile   = "root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n"
	groupEntries = "root:x:0:\nwheel:x:10:root\napp:x:1001:\nextra:x:1002:app\n"
)

func TestUser(t *testing.T) {
	for _, c := range []struct {
		name      string
		image     string
		pod       corev1.PodSecurityContext
		container corev1.SecurityContext
		noFiles   bool
		uid, gid  uint32
		groups    []uint32
	}{
		{name: "root when nobody says, with root's groups", groups: []uint32{0, 10}},
		{name: "an image without files has root too", noFiles: true, groups: []uint32{0}},
		{name: "the image's user by name", image: "app", uid: 1000, gid: 1001, groups: []uint32{1001, 1002}},
		{name: "the image's user by number", image: "1000", uid: 1000, gid: 1001, groups: []uint32{1001, 1002}},
		{name: "the image's user and group", image: "app:extra", uid: 1000, gid: 1002, groups: []uint32{1002}},
		{name: "a number without an entry has group 0", image: "4000", uid: 4000, groups: []uint32{0}},
		{name: "a number in an image without files", image: "4000:4001", noFiles: true, uid: 4000, gid: 4001, groups: []uint32{4001}},
		{name: "runAsUser before the image's", image: "app", pod: corev1.PodSecurityContext{RunAsUser: ptr(int64(5))}, uid: 5, groups: []uint32{0}},
		{
			name: "runAsUser finds its groups in the image", pod: corev1.PodSecurityContext{RunAsUser: ptr(int64(1000))},
			uid: 1000, gid: 1001, groups: []uint32{1001, 1002},
		},
		{
			name:      "the container's before the pod's",
			pod:       corev1.PodSecurityContext{RunAsUser: ptr(int64(5)), RunAsGroup: ptr(int64(6))},
			container: corev1.SecurityContext{RunAsUser: ptr(int64(7)), RunAsGroup: ptr(int64(8))}, uid: 7, gid: 8,
			groups: []uint32{8},
		},
		{
			name: "runAsGroup alone keeps the image's user", image: "app",
			container: corev1.SecurityContext{RunAsGroup: ptr(int64(8))}, uid: 1000, gid: 8, groups: []uint32{8, 1002},
		},
		{
			name: "supplemental groups and fsGroup are added", image: "app",
			pod: corev1.PodSecurityContext{SupplementalGroups: []int64{20}, FSGroup: ptr(int64(21))}, uid: 1000, gid: 1001,
			groups: []uint32{1001, 1002, 20, 21},
		},
		{
			name: "Strict leaves the image's groups out", image: "app",
			pod: corev1.PodSecurityContext{SupplementalGroups: []int64{20}, SupplementalGroupsPolicy: ptr(corev1.SupplementalGroupsPolicyStrict)},
			uid: 1000, gid: 1001, groups: []uint32{1001, 20},
		},
		{
			name: "runAsNonRoot with a number", image: "1000", pod: corev1.PodSecurityContext{RunAsNonRoot: ptr(true)}, uid: 1000,
			gid: 1001, groups: []uint32{1001, 1002},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := specOf(t, func(in *Input) {
				in.Image.User, in.Pod.Spec.SecurityContext, in.Container.SecurityContext = c.image, &c.pod, &c.container
			})
			passwd, group := userFiles(!c.noFiles)
			if err := ResolveUser(spec, passwd, group); err != nil {
				t.Fatal(err)
			}
			u := spec.Process.User
			if u.Username != "" || u.UID != c.uid || u.GID != c.gid || !slices.Equal(u.AdditionalGids, c.groups) {
				t.Errorf("got %+v", u)
			}
		})
	}
}

func TestHome(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(*Input)
		noFiles bool
		want    string // what the OCI runtime is told; empty: it looks into /etc/passwd itself
	}{
		{"a user that the image does not know is at home in /", func(in *Input) { in.Image.User = "4000" }, false, "HOME=/"},
		{"so is anyone where the image knows nobody", func(*Input) {}, true, "HOME=/"},
		{"one that it knows is where its /etc/passwd says", func(in *Input) { in.Image.User = "1000" }, false, ""},
		{"a home that the manifest or the image names stays", func(in *Input) {
			in.Image.User, in.Image.Env = "4000", []string{"HOME=/tmp"}
		}, false, "HOME=/tmp"},
		{"an /etc/passwd that is mounted may know the user", func(in *Input) {
			in.Image.User, in.Mounts = "4000", []specs.Mount{{Destination: "/etc/passwd", Type: "bind", Source: "/users"}}
		}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := specOf(t, c.change)
			passwd, group := userFiles(!c.noFiles)
			if err := ResolveUser(spec, passwd, group); err != nil {
				t.Fatal(err)
			}
			got := slices.DeleteFunc(spec.Process.Env, func(v string) bool { return !strings.HasPrefix(v, "HOME=") })
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

func userFiles(there bool) (passwd, group io.Reader) {
	if !there {
		return nil, nil
	}
	return strings.NewReader(passwdFile), strings.NewReader(groupEntries)
}

func TestUserErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   string
	}{
		{"runAsNonRoot and runAsUser 0", context(&corev1.SecurityContext{RunAsNonRoot: ptr(true), RunAsUser: ptr(int64(0))}),
			`container's runAsUser breaks non-root policy (pod: "work_default(12-34)", container: main)`},
		{"runAsNonRoot and an image of root's", context(&corev1.SecurityContext{RunAsNonRoot: ptr(true)}),
			`container has runAsNonRoot and image will run as root (pod: "work_default(12-34)", container: main)`},
		{"runAsNonRoot and a name", func(in *Input) {
			in.Image.User = "app:app"
			in.Container.SecurityContext = &corev1.SecurityContext{RunAsNonRoot: ptr(true)}
		}, `container has runAsNonRoot and image has non-numeric user (app), cannot verify user is non-root (pod: "work_default(12-34)", container: main)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Spec(input(c.change)); err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	t.Run("a name that the image does not know", func(t *testing.T) {
		spec := &specs.Spec{Process: &specs.Process{User: specs.User{Username: "nobody"}}}
		passwd, group := userFiles(true)
		if err := ResolveUser(spec, passwd, group); err == nil {
			t.Error("no error")
		}
	})
}
