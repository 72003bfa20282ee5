package hostpath

import (
	"path"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func listed(value string) *corev1.Namespace {
	ns := &corev1.Namespace{}
	ns.Annotations = map[string]string{Annotation: value}
	return ns
}

func TestValidate(t *testing.T) {
	for value, want := range map[string]string{
		"":                          "",
		"/data":                     "",
		" /data/a , /srv/models:ro": "",
		"data":                      `metadata.annotations[jobd.dev/allowed-host-paths]: Invalid value: "data": "data" is not an absolute path`,
		"/data,":                    `"" is not an absolute path`,
		"/data/../etc":              `"/data/../etc" must be written as "/etc"`,
		"/data/":                    `"/data/" must be written as "/data"`,
		"/":                         "a path must be below /",
		"/:ro":                      "a path must be below /",
		"/a\nb":                     "contains a character that no path should",
	} {
		errs := Validate(listed(value))
		if (len(errs) == 0) != (want == "") || len(errs) > 0 && !strings.Contains(errs.ToAggregate().Error(), want) {
			t.Errorf("%q: %v, want %q", value, errs, want)
		}
		list, err := Of(listed(value))
		if _, found := list.Find("/data"); err != nil && found {
			t.Errorf("%q: a list that makes no sense allows something", value)
		}
	}
	if list, err := Of(&corev1.Namespace{}); list != nil || err != nil || list.Check(&corev1.PodSpec{}, nil) != nil {
		t.Errorf("without the annotation: %v, %v", list, err)
	}
}

func TestFind(t *testing.T) {
	list, err := Of(listed("/data,/data/sub,/srv:ro,/srv/out,/mnt/a:ro,/mnt/a/b:ro"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"/data": "/data", "/data/": "/data", "/data/sub/x": "/data", "/database": "", "/data/../etc": "", "/": "", "/dat": "",
		"/srv/models": "/srv:ro", "/srv/out/1": "/srv/out", "/srv/outer": "/srv:ro", "/mnt/a/b/c": "/mnt/a:ro", "/mnt": "",
	} {
		found, ok := list.Find(name)
		if ok != (want != "") || ok && found.String() != want {
			t.Errorf("%s: %v, want %q", name, found, want)
		}
	}
}

func TestCheck(t *testing.T) {
	list, err := Of(listed("/data,/srv:ro"))
	if err != nil {
		t.Fatal(err)
	}
	volume := func(path string) corev1.Volume {
		return corev1.Volume{Name: path, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}}
	}
	spec := &corev1.PodSpec{
		Volumes: []corev1.Volume{volume("/data/x"), volume("/etc"), volume("/srv/models"), {Name: "e"}},
		InitContainers: []corev1.Container{{Name: "i", VolumeMounts: []corev1.VolumeMount{
			{Name: "/srv/models", MountPath: "/m"}, {Name: "/data/x", MountPath: "/x"},
		}}},
		Containers: []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: "/srv/models", MountPath: "/m", ReadOnly: true}}}},
	}
	const want = `[spec.volumes[1].hostPath.path: Forbidden: "/etc" is not among the paths that the namespace allows: /data, /srv:ro, ` +
		`spec.initContainers[0].volumeMounts[0].readOnly: Forbidden: must be true: the namespace allows /srv only for reading]`
	if got := list.Check(spec, field.NewPath("spec")).ToAggregate().Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	excused := list.Excused(spec)
	if v := excused.Volumes; v[0].HostPath != nil || v[1].HostPath == nil || v[2].HostPath != nil || spec.Volumes[0].HostPath == nil {
		t.Errorf("excused: %+v", v)
	}
	if only := (&corev1.PodSpec{Volumes: spec.Volumes[1:2]}); list.Excused(only) != only {
		t.Error("a spec of which nothing is excused is copied")
	}
}

// What is found lies below what is listed, by names.
func FuzzFind(f *testing.F) {
	f.Add("/data,/srv:ro", "/data/../srv/x")
	f.Add("/a/b", "/a/bc")
	f.Fuzz(func(t *testing.T, value, name string) {
		list, err := Of(listed(value))
		found, ok := list.Find(name)
		if !ok {
			return
		}
		if clean := path.Clean(name); err != nil || clean != found.Path && !strings.HasPrefix(clean, found.Path+"/") || found.Path == "/" {
			t.Errorf("%q, %q: %v", value, name, found)
		}
	})
}
