package volume

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/runtime/oci"
)

// objects are ConfigMaps and Secrets by name.
type objects struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string][]byte
}

func (o *objects) ConfigMap(_, name string) (*corev1.ConfigMap, error) {
	if data, ok := o.configMaps[name]; ok {
		return &corev1.ConfigMap{Data: data}, nil
	}
	return nil, oci.NotFound("configmap", name)
}

func (o *objects) Secret(_, name string) (*corev1.Secret, error) {
	if data, ok := o.secrets[name]; ok {
		return &corev1.Secret{Data: data}, nil
	}
	return nil, oci.NotFound("secret", name)
}

// tree lists the files that a pod sees in a volume, with mode and content.
func tree(t *testing.T, dir string) (out []string) {
	t.Helper()
	tops, err := filepath.Glob(dir + "/[^.]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, top := range tops {
		real, err := filepath.EvalSymlinks(top)
		if err != nil {
			t.Fatal(err)
		}
		err = filepath.Walk(real, func(path string, info os.FileInfo, err error) error {
			if err != nil || info.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			out = append(out, filepath.Base(top)+strings.TrimPrefix(path, real)+" "+info.Mode().String()+" "+string(content))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func TestVolumesOfFiles(t *testing.T) {
	yes, private, shared := true, int32(0o400), int32(0o644)
	field := func(path, of string) corev1.DownwardAPIVolumeFile {
		return corev1.DownwardAPIVolumeFile{Path: path, FieldRef: &corev1.ObjectFieldSelector{FieldPath: of}}
	}
	for _, c := range []struct {
		name   string
		source corev1.VolumeSource
		want   string // files or the error
	}{
		{"each key of a ConfigMap is a file", corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("c"), DefaultMode: &shared},
		},
			"a -rw-r--r-- 1|b -rw-r--r-- 2"},
		{"items choose keys and say where", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("c"), DefaultMode: &shared,
			Items: []corev1.KeyToPath{{Key: "b", Path: "deep/er", Mode: &private}}}}, "deep/er -r-------- 2"},
		{"a key that is not there", corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("c"), Items: []corev1.KeyToPath{{Key: "x", Path: "x"}}},
		},
			`MountVolume.SetUp failed for volume "v" : configmap references non-existent config key: x`},
		{"an optional key that is not there", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("c"), Optional: &yes,
			Items: []corev1.KeyToPath{{Key: "x", Path: "x"}, {Key: "a", Path: "a"}}}}, "a -rw-r--r-- 1"},
		{"a ConfigMap that is not there", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("x")}},
			`MountVolume.SetUp failed for volume "v" : configmap "x" not found`},
		{
			"an optional one that is not there",
			corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("x"), Optional: &yes}}, "",
		},
		{"a Secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", DefaultMode: &private}}, "key -r-------- \x00\xff"},
		{"a Secret that is not there", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "x"}},
			`MountVolume.SetUp failed for volume "v" : secret "x" not found`},
		{"the pod's own fields", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			field("labels", "metadata.labels"), field("name", "metadata.name"),
			{Path: "cpu", ResourceFieldRef: &corev1.ResourceFieldSelector{ContainerName: "main", Resource: "limits.cpu"}},
		}}}, "cpu -rw-r--r-- 0|labels -rw-r--r-- l=\"1\"\nm=\"\\\"2\\\"\"|name -rw-r--r-- pod"},
		{"all of it in one", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &shared, Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("c")}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: named("s"), Items: []corev1.KeyToPath{{Key: "key", Path: "a"}}}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: named("x"), Optional: &yes}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{field("pod/uid", "metadata.uid")}}},
		}}}, "a -rw-r--r-- \x00\xff|b -rw-r--r-- 2|pod/uid -rw-r--r-- uid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := newVolumes(t)
			v.node.Objects = &objects{map[string]map[string]string{"c": {"a": "1", "b": "2"}}, map[string]map[string][]byte{"s": {"key": {0, 0xff}}}}
			p := podWith(c.source, corev1.VolumeMount{MountPath: "/v"})
			p.Labels = map[string]string{"l": "1", "m": `"2"`}
			mounts, err := v.SetUp(t.Context(), p, "")
			if err != nil {
				if err.Error() != c.want {
					t.Errorf("got %v, want %s", err, c.want)
				}
				return
			}
			m := mounts["main"][0]
			if !slices.Contains(m.Options, "ro") {
				t.Errorf("it is mounted %v, want read-only", m.Options)
			}
			if got := strings.Join(tree(t, m.Source), "|"); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if err := v.TearDown(context.Background(), "uid"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestFilesChangeAtOnce(t *testing.T) {
	v := newVolumes(t)
	have := &objects{configMaps: map[string]map[string]string{"c": {"a": "1", "old": "x"}}}
	v.node.Objects = have
	p := podWith(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("c")}}, corev1.VolumeMount{MountPath: "/v"})
	if err := v.Refresh(p); err != nil {
		t.Fatal(err)
	}
	if held, _ := v.Held(); len(held) > 0 {
		t.Fatal("a refresh has set up a volume")
	}
	mounts, err := v.SetUp(t.Context(), p, "")
	if err != nil {
		t.Fatal(err)
	}
	dir := mounts["main"][0].Source
	before, _ := os.Readlink(dir + "/..data")
	if err := v.Refresh(p); err != nil {
		t.Fatal(err)
	}
	if now, _ := os.Readlink(dir + "/..data"); now != before {
		t.Error("it was written anew though nothing has changed")
	}

	have.configMaps["c"] = map[string]string{"a": "2", "new": "y"}
	// What a crash between two steps leaves.
	if err := os.Mkdir(dir+"/..half", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..half", dir+"/..data_tmp"); err != nil {
		t.Fatal(err)
	}
	if err := v.Refresh(p); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(tree(t, dir), "|"), "a -rw-r--r-- 2|new -rw-r--r-- y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 4 { // a, new, ..data and what it points to
		t.Errorf("left over: %v", entries)
	}

	delete(have.configMaps, "c")
	if err := v.Refresh(p); err == nil || !strings.Contains(err.Error(), `configmap "c" not found`) {
		t.Errorf("the ConfigMap is gone: %v", err)
	}
	if got := tree(t, dir); len(got) != 2 {
		t.Errorf("the files of a ConfigMap that is gone have to stay: %q", got)
	}
}

// A pod goes on with the files that it has when the set-up is repeated, and does not begin without them.
func TestFilesOutliveTheirObject(t *testing.T) {
	v := newVolumes(t)
	have := &objects{configMaps: map[string]map[string]string{"c": {"a": "1"}}}
	v.node.Objects = have
	p := podWith(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("c")}}, corev1.VolumeMount{MountPath: "/v"})
	dir := ""
	for _, c := range []struct {
		rule   string
		before func()
		want   string
	}{
		{"it is set up", func() {}, "a -rw-r--r-- 1"},
		{"its object is gone", func() { delete(have.configMaps, "c") }, "a -rw-r--r-- 1"},
		{"the set-up had been killed before all was shown", func() {
			if err := os.Remove(filepath.Join(dir, "a")); err != nil {
				t.Fatal(err)
			}
		}, "a -rw-r--r-- 1"},
		{"it was torn down", func() {
			if err := v.TearDown(context.Background(), "uid"); err != nil {
				t.Fatal(err)
			}
		}, `MountVolume.SetUp failed for volume "v" : configmap "c" not found`},
	} {
		c.before()
		mounts, err := setUp(v, p)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			dir = mounts[0].Source
			got = strings.Join(tree(t, dir), "|")
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.rule, got, c.want)
		}
	}
}

func TestFilesBelongToTheFSGroup(t *testing.T) {
	v := newVolumes(t)
	v.node.Objects = &objects{secrets: map[string]map[string][]byte{"s": {"key": []byte("1")}}}
	mode, group := int32(0o400), int64(1234)
	p := podWith(
		corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s", DefaultMode: &mode}},
		corev1.VolumeMount{MountPath: "/v", SubPath: "key"},
	)
	p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	mounts, err := setUp(v, p)
	if err != nil {
		t.Fatal(err)
	}
	var stat unix.Stat_t
	if err := unix.Stat(mounts[0].Source, &stat); err != nil || stat.Mode&0o7777 != 0o440 || stat.Gid != 1234 {
		t.Errorf("mode %o, group %d, %v", stat.Mode&0o7777, stat.Gid, err)
	}
}

func TestSubPathExpr(t *testing.T) {
	v := newVolumes(t)
	dir := t.TempDir()
	mount := corev1.VolumeMount{MountPath: "/v", SubPathExpr: "logs/$(NAME)"}
	p := podWith(hostPath(dir, corev1.HostPathDirectory), mount)
	if _, err := setUp(v, p); err == nil || !strings.Contains(err.Error(), `missing value for "NAME"`) {
		t.Errorf("got %v", err)
	}
	p.Spec.Containers[0].Env = []corev1.EnvVar{
		{Name: "NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	}
	if _, err := setUp(v, p); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/logs/pod"); err != nil {
		t.Error(err)
	}
	p.Spec.Containers[0].Env[0] = corev1.EnvVar{Name: "NAME", Value: "../../x"}
	if _, err := setUp(v, p); err == nil || !strings.Contains(err.Error(), "not within volume path") {
		t.Errorf("got %v", err)
	}
}
