package volume

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/oci"
)

func TestFilesOfAPodAreBounded(t *testing.T) {
	const size = 1 << 20
	paths := func(n int) (items []corev1.KeyToPath) {
		for i := range n {
			items = append(items, corev1.KeyToPath{Key: "k", Path: fmt.Sprint("p", i)})
		}
		return items
	}
	secret := func(n int) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", Items: paths(n)}}
	}
	projected := func(n int, one corev1.VolumeProjection) corev1.VolumeSource {
		s := &corev1.ProjectedVolumeSource{}
		for i := range n {
			part := *one.DeepCopy()
			if part.Secret != nil {
				part.Secret.Items[0].Path = fmt.Sprint("p", i)
			} else {
				part.ConfigMap.Items[0].Path = fmt.Sprint("p", i)
			}
			s.Sources = append(s.Sources, part)
		}
		return corev1.VolumeSource{Projected: s}
	}
	small := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "small", Items: paths(9000)}}
	onDisk := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("small"), Items: paths(9000)}}
	empty := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "small", Items: paths(9000)}}
	for i := range empty.Secret.Items {
		empty.Secret.Items[i].Key = "empty"
	}
	deep := func(n int) corev1.VolumeSource {
		items := paths(n)
		for i := range items {
			items[i].Path += strings.Repeat("/d", 1850)
		}
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("small"), Items: items}}
	}
	ofSecret := corev1.VolumeProjection{Secret: &corev1.SecretProjection{LocalObjectReference: named("s"), Items: paths(1)}}
	ofConfigMap := corev1.VolumeProjection{ConfigMap: &corev1.ConfigMapProjection{
		LocalObjectReference: named("c"), Items: paths(1),
	}}
	downward := corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}}
	for i := range 300 {
		downward.DownwardAPI.Items = append(downward.DownwardAPI.Items, corev1.DownwardAPIVolumeFile{
			Path: fmt.Sprint("p", i), FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"},
		})
	}
	for name, test := range map[string]struct {
		volumes  []corev1.VolumeSource
		refused  string // the volume
		inMemory int64  // at least
	}{
		"as much as is allowed":             {[]corev1.VolumeSource{secret(20), secret(12)}, "", 32 * size},
		"more in one volume":                {[]corev1.VolumeSource{secret(33)}, "v0", 0},
		"more in all volumes":               {[]corev1.VolumeSource{secret(20), secret(13)}, "v1", 0},
		"one key of a Secret in many files": {[]corev1.VolumeSource{projected(1200, ofSecret)}, "v0", 0},
		"one key of a ConfigMap":            {[]corev1.VolumeSource{projected(1200, ofConfigMap)}, "v0", 0},
		"the pod's annotations many times":  {[]corev1.VolumeSource{downward}, "v0", 0},
		"small files take a page each":      {[]corev1.VolumeSource{small}, "v0", 0},
		"but not those on the disk":         {[]corev1.VolumeSource{onDisk}, "", 0},
		"empty files":                       {[]corev1.VolumeSource{empty}, "v0", 0},
		"paths of many levels":              {[]corev1.VolumeSource{deep(9)}, "v0", 0},
		"a few of them":                     {[]corev1.VolumeSource{deep(7)}, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolumes(t)
			v.node.Objects = &objects{
				map[string]map[string]string{"c": {"k": strings.Repeat("x", size)}, "small": {"k": "x"}},
				map[string]map[string][]byte{"s": {"k": make([]byte, size)}, "small": {"k": {1}, "empty": nil}},
			}
			p := podWith(test.volumes[0], corev1.VolumeMount{MountPath: "/v"})
			p.Annotations = map[string]string{"a": strings.Repeat("x", 200_000)}
			mount := p.Spec.Containers[0].VolumeMounts[0]
			p.Spec.Volumes, p.Spec.Containers[0].VolumeMounts = nil, nil
			for i, source := range test.volumes {
				mount.Name, mount.MountPath = fmt.Sprint("v", i), fmt.Sprint("/v", i)
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: mount.Name, VolumeSource: source})
				p.Spec.Containers[0].VolumeMounts = append(p.Spec.Containers[0].VolumeMounts, mount)
			}
			_, err := v.SetUp(t.Context(), p, "")
			want := ""
			if test.refused != "" {
				want = fmt.Sprintf("MountVolume.SetUp failed for volume %q : "+
					"the files of the pod's volumes take more than 33554432 bytes", test.refused)
			}
			if got := fmt.Sprint(err); err == nil && want != "" || err != nil && (want == "" || !strings.HasPrefix(got, want)) {
				t.Errorf("got %v, want %q", err, want)
			}
			if in, err := v.InMemory(t.Context(), p); err != nil || in > maxFiles || in < test.inMemory {
				t.Errorf("%d bytes are in memory, %v", in, err)
			}
			if err := v.TearDown(context.Background(), "uid"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFilesThatGrowTooLargeStay(t *testing.T) {
	v := newVolumes(t)
	have := &objects{secrets: map[string]map[string][]byte{"s": {"k": []byte("small")}}}
	v.node.Objects = have
	source := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}
	for i := range 40 {
		source.Secret.Items = append(source.Secret.Items, corev1.KeyToPath{Key: "k", Path: fmt.Sprint("p", i)})
	}
	p := podWith(source, corev1.VolumeMount{MountPath: "/v"})
	mounts, err := setUp(v, p)
	if err != nil {
		t.Fatal(err)
	}
	have.secrets["s"]["k"] = make([]byte, 1<<20)
	if err := v.Refresh(p); err == nil || !strings.Contains(err.Error(), "take more than 33554432 bytes") {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(mounts[0].Source, "p39")); string(got) != "small" {
		t.Errorf("the file has %d bytes, %v", len(got), err)
	}
	if _, err := setUp(v, p); err != nil { // as after a restart of the daemon
		t.Error(err)
	}
	if err := v.TearDown(context.Background(), "uid"); err != nil {
		t.Error(err)
	}
}

// countedObjects counts what is read.
type countedObjects struct {
	oci.Objects
	read int
}

func (o *countedObjects) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	o.read++
	return o.Objects.ConfigMap(namespace, name)
}

func (o *countedObjects) Secret(namespace, name string) (*corev1.Secret, error) {
	o.read++
	return o.Objects.Secret(namespace, name)
}

func TestObjectsOfManyVolumesAreReadOnce(t *testing.T) {
	v := newVolumes(t)
	have := &countedObjects{Objects: &objects{map[string]map[string]string{"c": {"k": "x"}}, map[string]map[string][]byte{"s": {"k": []byte("x")}}}}
	v.node.Objects = have
	p := podWith(corev1.VolumeSource{}, corev1.VolumeMount{MountPath: "/v"})
	p.Spec.Volumes, p.Spec.Containers[0].VolumeMounts = nil, nil
	for i := range 20 {
		source := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}
		if i%2 == 0 {
			source = corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("c")}}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: source})
	}
	for what, do := range map[string]func() error{
		"set-up":  func() error { _, err := v.SetUp(t.Context(), p, ""); return err },
		"refresh": func() error { return v.Refresh(p) },
	} {
		if _, err := v.SetUp(t.Context(), p, ""); err != nil {
			t.Fatal(err)
		}
		have.read = 0
		if err := do(); err != nil || have.read != 2 {
			t.Errorf("%s: read %d times, %v", what, have.read, err)
		}
	}
	if err := v.TearDown(context.Background(), "uid"); err != nil {
		t.Error(err)
	}
}
