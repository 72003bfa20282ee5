package sandbox

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/hostimage"
	"github.com/jobd/jobd/api/runas"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/worker"
	"github.com/jobd/jobd/internal/nss"
	"github.com/jobd/jobd/store"
)

// As whom a command of the host runs is said by its namespace and by the host, and not by the pod.
func TestUserOfAHostCommand(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, annotations := range map[string]map[string]string{
		"alice": {runas.UserAnnotation: "alice", runas.Annotation: "1000:1000,27,50"}, "nobodys": nil,
		"gone": {runas.UserAnnotation: "gone", runas.Annotation: "1001:1001"}, "renamed": {runas.UserAnnotation: "bob", runas.Annotation: "1000:1000"},
	} {
		ns := &corev1.Namespace{}
		ns.Name, ns.Annotations = name, annotations
		value, err := scheme.Encode(ns)
		if err == nil {
			err = s.Update(t.Context(), func(tx *store.Tx) error {
				tx.Put(store.Object{Key: store.Key(objects.Namespaces, "", name), Value: value})
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h := HostCommands{
		Objects: Objects{Store: s}, Files: filepath.Join(t.TempDir(), "host"), Program: "/jobd-shim",
		Lookup: func(_ context.Context, uid uint32) (nss.User, error) {
			switch uid {
			case 0:
				return nss.User{Name: "root", Home: "/root", Groups: []nss.Group{{GID: 0, Name: "root"}}}, nil
			case 1000: // who is in 50 no more
				return nss.User{Name: "alice", UID: 1000, Home: "/home/alice", Groups: []nss.Group{{GID: 1000}, {GID: 27}, {GID: 60}}}, nil
			case 1002:
				return nss.User{}, errors.New("no answer")
			}
			return nss.User{}, nss.UnknownError{UID: uid}
		},
	}
	asUser := func(uid int64) func(*corev1.PodSecurityContext) {
		return func(c *corev1.PodSecurityContext) { c.RunAsUser = &uid }
	}
	asGroup := func(gid int64) func(*corev1.PodSecurityContext) {
		return func(c *corev1.PodSecurityContext) { c.RunAsGroup = &gid }
	}
	inGroup := func(c *corev1.PodSecurityContext) { c.SupplementalGroups = []int64{50} }
	for _, c := range []struct {
		namespace string
		root      bool
		change    func(*corev1.PodSecurityContext)
		uid, gid  uint32
		groups    []uint32
		wrong     string
		is        func(error) bool
	}{
		{namespace: "alice", uid: 1000, gid: 1000, groups: []uint32{1000, 27, 60}},
		{namespace: "alice", root: true, uid: 1000, gid: 1000, groups: []uint32{1000, 27, 60}},
		{namespace: "alice", change: asUser(0), uid: 1000, gid: 1000, groups: []uint32{1000, 27, 60}},
		{namespace: "alice", change: inGroup, uid: 1000, gid: 1000, groups: []uint32{1000, 27, 60}},
		{namespace: "alice", change: asGroup(27), uid: 1000, gid: 27, groups: []uint32{1000, 27, 60}},
		{
			namespace: "alice", change: asGroup(50), wrong: "is not in group 50 any more",
			is: errdefs.IsPermissionDenied,
		},
		{namespace: "gone", wrong: "knows no user 1001", is: errdefs.IsNotFound},
		{namespace: "renamed", wrong: "is alice now, and not bob any more", is: errdefs.IsPermissionDenied},
		{namespace: "nobodys", wrong: "host-root is off", is: errdefs.IsPermissionDenied},
		{namespace: "nobodys", root: true, groups: []uint32{0}},
		{
			namespace: "nobodys", root: true, change: asUser(1000),
			uid: 1000, gid: 1000, groups: []uint32{1000, 27, 60},
		},
		{
			namespace: "nobodys", root: true, change: asUser(1002), wrong: "no answer",
			is: errdefs.IsUnavailable,
		},
	} {
		pod := &corev1.Pod{}
		pod.Namespace = c.namespace
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: hostimage.Name}}
		if c.change != nil {
			c.change(pod.Spec.SecurityContext)
		}
		h.Root = c.root
		got, err := h.of(t.Context(), pod, &pod.Spec.Containers[0])
		if c.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), c.wrong) || !c.is(err) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil || got.User.UID != c.uid || got.User.GID != c.gid || !slices.Equal(got.User.AdditionalGids, c.groups) ||
			got.Root != (c.namespace == "nobodys") || len(got.Dirs["usr"]) == 0 {
			t.Errorf("%+v: %+v, %v", c, got, err)
		}
		pod.Spec.Containers[0].Image = "busybox"
		if got, err := h.of(t.Context(), pod, &pod.Spec.Containers[0]); got != nil || err != nil {
			t.Errorf("with an image: %+v, %v", got, err)
		}
	}
}

func TestBindOptions(t *testing.T) {
	if got := bindOptions("ro,nosuid,relatime,errors=continue"); !slices.Equal(got, []string{"ro", "nosuid", "relatime"}) {
		t.Errorf("they are %q", got)
	}
}

// A group that the user of a namespace has left is not given to pods with images either, though the namespace and the pod say so: who has
// left comes with no request that would change that.
func TestGroupsThatWereLeft(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for name, annotations := range map[string]map[string]string{
		"alice": {runas.UserAnnotation: "alice", runas.Annotation: "1000:1000,27,50"}, "nobodys": nil,
		"robots": {runas.Annotation: "1000:1000,27,50"}, "gone": {runas.UserAnnotation: "gone", runas.Annotation: "1001:1001"},
		"renamed": {runas.UserAnnotation: "bob", runas.Annotation: "1000:1000"},
	} {
		ns := &corev1.Namespace{}
		ns.Name, ns.Annotations = name, annotations
		value, err := scheme.Encode(ns)
		if err == nil {
			err = s.Update(t.Context(), func(tx *store.Tx) error {
				tx.Put(store.Object{Key: store.Key(objects.Namespaces, "", name), Value: value})
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	o := Objects{Store: s, Lookup: func(_ context.Context, uid uint32) (nss.User, error) {
		if uid == 1000 { // who is in 50 no more
			return nss.User{Name: "alice", UID: 1000, Groups: []nss.Group{{GID: 1000}, {GID: 27}}}, nil
		}
		return nss.User{}, nss.UnknownError{UID: uid}
	}}
	if id, err := o.RunAs("alice"); err != nil || id.String() != "1000:1000,27" {
		t.Errorf("paths of the host are opened as %v, %v", id, err)
	}
	for _, c := range []struct {
		namespace, wrong string
		group, fs, own   int64
		user             *int64
		groups           []int64
	}{
		{namespace: "alice", group: 1000, fs: 27, own: 27, groups: []int64{27}},
		{namespace: "alice", group: 50, fs: 27, own: 27, wrong: "group 50 any more"},
		{namespace: "alice", group: 27, fs: 50, own: 27, wrong: "group 50 any more"},
		{namespace: "alice", group: 27, fs: 27, own: 50, wrong: "group 50 any more"},
		// Whoever is in a group that a file shuts out is in it in a pod too.
		{namespace: "alice", group: 27, fs: 27, own: 27, user: ptr.To[int64](1000), groups: []int64{27, 1000}},
		{namespace: "alice", group: 1000, fs: 1000, own: 27, user: ptr.To[int64](1000), groups: []int64{27}},
		{namespace: "robots", group: 50, fs: 50, own: 50, user: ptr.To[int64](1000), groups: []int64{27, 50, 1000}},
		{namespace: "nobodys", group: 50, fs: 50, own: 50, groups: []int64{27, 50}},
		{namespace: "robots", group: 50, fs: 50, own: 50, groups: []int64{27, 50}},
		{namespace: "gone", wrong: "knows no user 1001"},
		{namespace: "renamed", wrong: "is alice now, and not bob any more"},
	} {
		pod := &corev1.Pod{}
		pod.Namespace = c.namespace
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: c.user, RunAsGroup: &c.group, FSGroup: &c.fs, SupplementalGroups: []int64{27, 50}}
		pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybox", SecurityContext: &corev1.SecurityContext{RunAsGroup: &c.own}}}
		before := pod.DeepCopy()
		got, err := o.inGroups(pod)
		if c.wrong != "" {
			refused := HostUser(HostCommands{Objects: o}).SetUp(t.Context(), pod, nil)
			var rejection *worker.Rejection
			if err == nil || !strings.Contains(err.Error(), c.wrong) || !errors.As(refused, &rejection) {
				t.Errorf("%+v: %v, %v", c, err, refused)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Spec.SecurityContext.SupplementalGroups, c.groups) {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
		if !equality.Semantic.DeepEqual(pod, before) {
			t.Errorf("%+v: the pod itself was changed", c)
		}
	}
}
