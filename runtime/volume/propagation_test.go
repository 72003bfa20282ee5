package volume

import (
	"fmt"
	"testing"

	"github.com/moby/sys/mountinfo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestMountsOfTheHostAreReadOnce(t *testing.T) {
	const many = 5000
	c, sources, read := &corev1.Container{}, map[string]source{}, 0
	for i := range many {
		name := fmt.Sprint("v", i)
		sources[name] = source{path: fmt.Sprint("/nothing/", i)}
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
			Name: name, MountPath: "/" + name, MountPropagation: ptr.To(corev1.MountPropagationHostToContainer),
		})
	}
	host := newHostMounts(func(mountinfo.FilterFunc) ([]*mountinfo.Info, error) {
		read++
		return []*mountinfo.Info{{Mountpoint: "/", Optional: "shared:1"}}, nil
	})
	for range 3 { // containers
		if got, err := mounts(c, sources, host); err != nil || len(got) != many {
			t.Fatalf("%d mounts, %v", len(got), err)
		}
	}
	if read != 1 {
		t.Errorf("read %d times", read)
	}
}

func TestMountOfAPath(t *testing.T) {
	host := newHostMounts(func(mountinfo.FilterFunc) (list []*mountinfo.Info, err error) {
		for i, place := range []string{"/", "/nothing/a", "/nothing/a/b", "/nothing/a"} {
			list = append(list, &mountinfo.Info{ID: i, Mountpoint: place})
		}
		return list, nil
	})
	for path, want := range map[string]int{
		"/": 0, "/nothing": 0, "/nothing/ab": 0, "/nothing/a": 3, "/nothing/a/c/d": 3, "/nothing/a/b": 2, "/nothing/a/b/c": 2,
	} {
		for range 2 {
			if got, err := host.of(path); err != nil || got.ID != want {
				t.Errorf("%s: %v, %v", path, got, err)
			}
		}
	}
}
