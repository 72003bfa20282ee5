package volume

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// asking returns a pod with a volume of a medium, whose containers ask for huge pages of those sizes.
func asking(medium corev1.StorageMedium, pod []string, init, main []string) *corev1.Pod {
	p := podWith(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}, corev1.VolumeMount{MountPath: "/data"})
	requests := func(sizes []string) corev1.ResourceRequirements {
		list := corev1.ResourceList{}
		for _, size := range sizes {
			list[corev1.ResourceName(corev1.ResourceHugePagesPrefix+size)] = resource.MustParse(size)
		}
		return corev1.ResourceRequirements{Requests: list, Limits: list}
	}
	if pod != nil {
		r := requests(pod)
		p.Spec.Resources = &r
	}
	p.Spec.InitContainers = []corev1.Container{{Name: "init", Resources: requests(init)}}
	p.Spec.Containers[0].Resources = requests(main)
	return p
}

func TestSizeOfHugePages(t *testing.T) {
	const none = "hugePages storage requested, but there is no resource request for huge pages"
	for _, c := range []struct {
		name            string
		medium          corev1.StorageMedium
		pod, init, main []string
		want            int64
		wantErr         string
	}{
		{"the only one that is asked for", "HugePages", nil, nil, []string{"2Mi"}, 2 << 20, ""},
		{"several containers ask for the same", "HugePages", nil, []string{"2Mi"}, []string{"2Mi"}, 2 << 20, ""},
		{"the pod as a whole asks", "HugePages", []string{"2Mi"}, nil, nil, 2 << 20, ""},
		{
			"several are asked for", "HugePages", nil, []string{"1Gi"}, []string{"2Mi"}, 0,
			"medium: HugePages can't be used if container requests multiple huge page sizes",
		},
		{"the one that is named", "HugePages-1Gi", nil, []string{"1Gi"}, []string{"2Mi"}, 1 << 30, ""},
		{"the one that is named, in other words", "HugePages-1024Mi", nil, nil, []string{"1Gi"}, 1 << 30, ""},
		{"nobody asks for any", "HugePages", nil, nil, nil, 0, "medium HugePages: " + none},
		{"nobody asks for the one that is named", "HugePages-1Gi", nil, nil, []string{"2Mi"}, 0, "medium HugePages-1Gi: " + none},
		{"it is no size", "HugePages-big", nil, nil, []string{"2Mi"}, 0, "quantities must match the regular expression"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := hugePageSize(asking(c.medium, c.pod, c.init, c.main), c.medium)
			if got != c.want || (err == nil) != (c.wantErr == "") || err != nil && !strings.HasPrefix(err.Error(), c.wantErr) {
				t.Errorf("got %d, %v, want %d, %s", got, err, c.want, c.wantErr)
			}
		})
	}
}

func TestHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/hugepages/hugepages-2048kB"); err != nil {
		t.Skip("needs a kernel with pages of 2 MiB")
	}
	const group = 1234
	for _, fsGroup := range []bool{false, true} {
		v := newVolumes(t)
		p := asking(corev1.StorageMediumHugePages, nil, nil, []string{"2Mi"})
		limit := resource.MustParse("5Mi")
		p.Spec.Volumes[0].EmptyDir.SizeLimit = &limit
		wantMode, wantGroup := uint32(0o777), uint32(0)
		if fsGroup {
			wantMode, wantGroup = 0o2777, group
			p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64)}
			*p.Spec.SecurityContext.FSGroup = group
		}
		p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "v", MountPath: "/sub", SubPath: "a/b"})
		var dir string
		asItShouldBe := func(when string) {
			t.Helper()
			mounts, err := setUp(v, p)
			if err != nil {
				t.Fatal(when, err)
			}
			dir = mounts[0].Source
			var disk unix.Statfs_t
			if err := unix.Statfs(dir, &disk); err != nil || disk.Type != unix.HUGETLBFS_MAGIC || disk.Bsize != 2<<20 || disk.Blocks != 2 {
				t.Errorf("%s: it is of %x with %d pages of %d bytes, %v", when, disk.Type, disk.Blocks, disk.Bsize, err)
			}
			for _, path := range []string{dir, mounts[1].Source} {
				var stat unix.Stat_t
				if err := unix.Stat(path, &stat); err != nil || stat.Mode&0o7777 != wantMode || stat.Gid != wantGroup {
					t.Errorf("%s: %s has mode %o, group %d, %v", when, path, stat.Mode, stat.Gid, err)
				}
			}
		}
		asItShouldBe("new")
		if err := os.Mkdir(filepath.Join(dir, "kept"), 0o700); err != nil { // no file can be written there
			t.Fatal(err)
		}
		// As a crash between the mount and its mode leaves it.
		if err := os.Chmod(dir, 0); err != nil {
			t.Fatal(err)
		}
		asItShouldBe("set up again")
		if _, err := os.Stat(filepath.Join(dir, "kept")); err != nil {
			t.Error("setting up again lost a file")
		}
		if below, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(dir)); err != nil || len(below) != 1 ||
			!slices.Contains(strings.Split(below[0].Options, ","), "nosuid") {
			t.Errorf("mounted there: %v, %v", below, err)
		}
		for range 2 {
			if err := v.TearDown(context.Background(), "uid"); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(dir); err == nil {
			t.Error("it is still there")
		}
	}
}

func TestHugePagesOfASizeThatTheKernelDoesNotHave(t *testing.T) {
	v := newVolumes(t)
	_, err := v.SetUp(t.Context(), asking("HugePages-3Mi", nil, nil, []string{"3Mi"}), "")
	if want := `MountVolume.SetUp failed for volume "v" : mount hugetlbfs with pages of 3145728 bytes`; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
