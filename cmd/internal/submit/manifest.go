package submit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/absent"
	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/internal/quantity"
)

// gpu is the device that --gpus and batch systems count.
const gpu = "nvidia.com/gpu"

// Template is a Job that is described by flags instead of a file.
type Template struct {
	Image        string
	Command      []string
	Completions  int32
	Parallelism  int32
	Indexed      bool
	Env          []string // NAME=VALUE, or NAME for the value that the command has
	CPU, Memory  string
	GPUs         int64
	Volumes      []string // HOST:PATH or HOST:PATH:ro
	WorkDir      string
	BackoffLimit int32
	Deadline     time.Duration
	PodDeadline  time.Duration
	TTL          time.Duration
	Pull         string // always, missing or never
	Labels       []string
	Stdin, TTY   bool // the container reads what those write who attach to it, from a terminal
	// Host: there is no image, but a command of this machine. AsMe runs an image as whoever runs this, and InPlace with the working
	// directory.
	Host, AsMe, InPlace bool
	// Elsewhere: the Job runs on another machine.
	Elsewhere bool
}

// Job returns the Job that the flags describe. getenv and wd are those of the command; given reports whether it has a flag,
// since zero is a value that the API knows, or refuses.
func (t *Template) Job(getenv func(string) (string, bool), wd string, given func(flag string) bool) (*batchv1.Job, error) {
	if t.Elsewhere {
		if wd = ""; t.AsMe || t.InPlace {
			return nil, errors.New("--as-me and --here are for the jobd of this machine")
		}
	}
	name := containerName(t.Image)
	if t.Host {
		if err := t.hostCommand(getenv, wd); err != nil {
			return nil, err
		}
		name = containerName(t.Command[0])
	}
	if t.Image == "" {
		return nil, errors.New("--image is required unless -f names a file")
	}
	container, err := t.container(name, getenv, given)
	if err != nil {
		return nil, err
	}
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever}
	for i, v := range t.Volumes {
		mount, volume, err := hostVolume(fmt.Sprintf("volume-%d", i), v, wd)
		if err != nil {
			return nil, err
		}
		container.VolumeMounts = append(container.VolumeMounts, mount)
		pod.Volumes = append(pod.Volumes, volume)
	}
	if t.AsMe {
		if err := asMe(&pod); err != nil {
			return nil, err
		}
	}
	if t.InPlace {
		if err := inPlace(&pod, &container, wd); err != nil {
			return nil, err
		}
	}
	pod.Containers = []corev1.Container{container}
	j := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-"},
		Spec: batchv1.JobSpec{
			BackoffLimit: &t.BackoffLimit,
			Template:     corev1.PodTemplateSpec{Spec: pod},
		},
	}
	if err := t.counts(&j.Spec, given); err != nil {
		return nil, err
	}
	if t.Stdin || t.TTY {
		if err := t.interactive(j, given); err != nil {
			return nil, err
		}
	}
	for _, l := range t.Labels {
		key, value, ok := strings.Cut(l, "=")
		if !ok {
			return nil, fmt.Errorf("--label: %q is not of the form NAME=VALUE", l)
		}
		metav1.SetMetaDataLabel(&j.ObjectMeta, key, value)
	}
	return j, nil
}

// container returns the container of the Job, without what it mounts.
func (t *Template) container(name string, getenv func(string) (string, bool), given func(flag string) bool) (corev1.Container, error) {
	c := corev1.Container{Name: name, Image: t.Image, Command: t.Command, WorkingDir: t.WorkDir}
	var err error
	if c.Env, err = environment(t.Env, getenv); err != nil {
		return c, err
	}
	memory := t.Memory
	if memory == autoMemory {
		memory = ""
	}
	if c.Resources, err = resources(t.CPU, memory); err != nil {
		return c, err
	}
	switch {
	case t.GPUs > 0:
		if c.Resources.Limits == nil {
			c.Resources.Limits = corev1.ResourceList{}
		}
		c.Resources.Limits[gpu] = *resource.NewQuantity(t.GPUs, resource.DecimalSI)
	case given("gpus"):
		return c, fmt.Errorf("--gpus: %d is no number of GPUs: leave the flag out for none", t.GPUs)
	}
	switch t.Pull {
	case "":
	case "always":
		c.ImagePullPolicy = corev1.PullAlways
	case "missing":
		c.ImagePullPolicy = corev1.PullIfNotPresent
	case "never":
		c.ImagePullPolicy = corev1.PullNever
	default:
		return c, fmt.Errorf("--pull: %q is not known: one of always, missing, never", t.Pull)
	}
	return c, nil
}

// counts sets how many pods the Job has, how long it and each of them may run, and for how long it stays.
func (t *Template) counts(spec *batchv1.JobSpec, given func(flag string) bool) (err error) {
	if given("completions") {
		spec.Completions = &t.Completions
	}
	if given("parallelism") {
		spec.Parallelism = &t.Parallelism
	}
	if t.Indexed {
		if !given("completions") {
			return errors.New("--indexed needs --completions: how many indexes there are")
		}
		spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	}
	if given("deadline") {
		if spec.ActiveDeadlineSeconds, err = wholeSeconds[int64]("--deadline", t.Deadline, time.Second); err != nil {
			return err
		}
	}
	if given("pod-deadline") {
		if spec.Template.Spec.ActiveDeadlineSeconds, err = wholeSeconds[int64]("--pod-deadline", t.PodDeadline, time.Second); err != nil {
			return err
		}
	}
	if given("ttl") {
		if spec.TTLSecondsAfterFinished, err = wholeSeconds[int32]("--ttl", t.TTL, 0); err != nil {
			return err
		}
	}
	return nil
}

const (
	// sessionDeadline is how long an interactive Job runs at most unless something else is asked for: whoever forgets it keeps others waiting.
	sessionDeadline = 8 * time.Hour
	// sessionGrace is how long its container has to end: a shell on a terminal does not heed SIGTERM.
	sessionGrace = 5
)

// interactive makes the Job one to attach to. Its deadline is that of the pod, which does not run while it is in the queue.
func (t *Template) interactive(j *batchv1.Job, given func(flag string) bool) error {
	switch {
	case !t.Stdin:
		return errors.New("-t needs -i: without it nobody could type anything")
	case given("param"), given("each"), given("completions"), given("parallelism"), given("indexed"):
		return errors.New("-i is for a Job of one pod: leave out --param, --each, --completions, --parallelism and --indexed")
	}
	c := &j.Spec.Template.Spec.Containers[0]
	c.Stdin, c.TTY = true, t.TTY
	c.StdinOnce = !t.TTY // the end of a file is that of the container's input
	pod := &j.Spec.Template.Spec
	switch {
	case given("pod-deadline"):
	case given("deadline"):
		pod.ActiveDeadlineSeconds, j.Spec.ActiveDeadlineSeconds = j.Spec.ActiveDeadlineSeconds, nil
	default:
		pod.ActiveDeadlineSeconds = ptr.To(int64(sessionDeadline / time.Second))
	}
	if t.TTY {
		pod.TerminationGracePeriodSeconds = ptr.To[int64](sessionGrace)
	}
	return nil
}

// wholeSeconds returns a duration as the API counts it. A fraction is refused, since either way of rounding it would surprise
// somebody.
func wholeSeconds[T int32 | int64](flag string, d, least time.Duration) (*T, error) {
	seconds := T(d / time.Second)
	switch {
	case d < least:
		return nil, fmt.Errorf("%s: %v is less than %v, the least that can be given", flag, d, least)
	case d%time.Second != 0:
		return nil, fmt.Errorf("%s: %v is not a number of whole seconds", flag, d)
	case time.Duration(seconds)*time.Second != d:
		return nil, fmt.Errorf("%s: %v is more than the API can hold", flag, d)
	}
	return &seconds, nil
}

// containerName makes the name of a container, and of a Job, from the image's: docker.io/library/perl:5.34.0 is perl.
func containerName(image string) string {
	image, _, _ = strings.Cut(image, "@")
	base := strings.ToLower(path.Base(image))
	base, _, _ = strings.Cut(base, ":")
	clean := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '-'
	}, base), "-")
	if len(clean) > 40 {
		clean = strings.Trim(clean[:40], "-")
	}
	if len(validation.IsDNS1123Label(clean)) > 0 {
		return "job"
	}
	return clean
}

func environment(given []string, getenv func(string) (string, bool)) ([]corev1.EnvVar, error) {
	var out []corev1.EnvVar
	for _, e := range given {
		name, value, ok := strings.Cut(e, "=")
		if name == "" {
			return nil, fmt.Errorf("--env: %q is not of the form NAME=VALUE", e)
		}
		if !ok {
			if value, ok = getenv(name); !ok {
				return nil, fmt.Errorf("--env: %s has no value here: write %s=VALUE", name, name)
			}
		}
		out = append(out, corev1.EnvVar{Name: name, Value: value})
	}
	return out, nil
}

func resources(cpu, memory string) (corev1.ResourceRequirements, error) {
	list := corev1.ResourceList{}
	for _, r := range []struct {
		flag, value, such string
		name              corev1.ResourceName
	}{{"--cpu", cpu, "2 or 500m", corev1.ResourceCPU}, {"--memory", memory, "512Mi or 4Gi", corev1.ResourceMemory}} {
		if r.value == "" {
			continue
		}
		q, err := quantity.Parse(r.value)
		if err != nil || q.Sign() <= 0 {
			return corev1.ResourceRequirements{}, fmt.Errorf("%s: %q is not an amount such as %s", r.flag, r.value, r.such)
		}
		list[r.name] = q
	}
	if len(list) == 0 {
		return corev1.ResourceRequirements{}, nil
	}
	return corev1.ResourceRequirements{Requests: list, Limits: list.DeepCopy()}, nil
}

func hostVolume(name, given, wd string) (corev1.VolumeMount, corev1.Volume, error) {
	parts := strings.Split(given, ":")
	mount := corev1.VolumeMount{Name: name}
	switch {
	case len(parts) == 3 && parts[2] == "ro":
		mount.ReadOnly = true
	case len(parts) == 3 && parts[2] == "rw", len(parts) == 2:
	default:
		return mount, corev1.Volume{}, fmt.Errorf("--volume: %q is not of the form HOST:PATH or HOST:PATH:ro", given)
	}
	from := parts[0]
	if from == "" || !path.IsAbs(parts[1]) {
		return mount, corev1.Volume{}, fmt.Errorf("--volume: %q: PATH must be absolute, and HOST not empty", given)
	}
	if !filepath.IsAbs(from) {
		from = filepath.Join(wd, from)
	}
	mount.MountPath = parts[1]
	return mount, corev1.Volume{
		Name: name, VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: from}},
	}, nil
}

// hostPathsExist returns an error for a path of the host that is not there. Docker and the API make a directory of it, which would
// hide that it is mistyped.
func hostPathsExist(pod *corev1.PodSpec) error {
	for _, v := range pod.Volumes {
		if v.HostPath == nil {
			continue
		}
		if _, err := os.Stat(v.HostPath.Path); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("--volume: %s does not exist on this machine; if it is to be an empty directory: mkdir -p %[1]s", v.HostPath.Path)
		}
	}
	return nil
}

// Manifests are the objects of some files: one Job or JobSet, and what it needs.
type Manifests struct {
	Job *unstructured.Unstructured
	// Set says that Job is a JobSet.
	Set    bool
	Others []*unstructured.Unstructured
	// Values has the values of each index (--param, --each); nil if there are none.
	Values *corev1.ConfigMap
	// After are the Jobs and JobSets that the command line names, for which the Job or the JobSet waits.
	After []batch.Need
	// Replace says that a Job of the same name is deleted first.
	Replace bool
	// AutoMemory says that SizeMemory is to set the Job's memory.
	AutoMemory bool
}

// readFiles reads files of YAML or JSON documents, "-" for stdin.
func readFiles(files []string, stdin io.Reader) (*Manifests, error) {
	m := &Manifests{}
	for _, file := range files {
		if err := func() error {
			if file == "-" {
				return m.read("the standard input", stdin)
			}
			f, err := os.Open(file)
			if err != nil {
				return err
			}
			defer f.Close()
			return m.read(file, f)
		}(); err != nil {
			return nil, err
		}
	}
	if m.Job == nil {
		m.takeSet()
	}
	if m.Job == nil {
		return nil, fmt.Errorf("there is no Job (batch/v1) in %s%s", strings.Join(files, ", "), m.instead())
	}
	return m, nil
}

// takeSet makes the JobSet of manifests without a Job what is followed, if there is one only.
func (m *Manifests) takeSet() {
	var sets, others []*unstructured.Unstructured
	for _, u := range m.Others {
		if u.GroupVersionKind() == jobsetv1.GroupVersion.WithKind("JobSet") {
			sets = append(sets, u)
		} else {
			others = append(others, u)
		}
	}
	if len(sets) == 1 {
		m.Job, m.Others, m.Set = sets[0], others, true
	}
}

// instead says what to do with manifests that have no Job; empty if that is not clear.
func (m *Manifests) instead() string {
	for _, u := range m.Others {
		kind := u.GroupVersionKind()
		if kind == jobsetv1.GroupVersion.WithKind("JobSet") {
			return ", but several JobSets, of which only one can be followed: jobctl apply creates them"
		}
		what := fmt.Sprintf(", but the %s %s: ", kind.Kind, nameOf(u))
		switch {
		case kind.Group == "batch" && kind.Kind == "CronJob":
			return what + "jobctl apply creates it, and jobctl create job NAME --from=cronjob/" + nameOf(u) + " runs it now"
		case kind.Group == "" && kind.Kind == "Pod":
			return what + "jobctl apply creates it; to have it followed and its exit code, make it the template of a Job"
		}
		if meant := KindMeant(kind.Kind, kind.GroupVersion()); meant != "" {
			return what + "write kind: " + meant
		}
		if moved, old := absent.Moved(kind); old {
			return what + moved
		}
		if absent.Advised(kind.GroupKind()) {
			return what + absent.Refusal(kind.GroupKind())
		}
	}
	return ""
}

func (m *Manifests) read(name string, r io.Reader) error {
	all, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(all), 4096)
	for n := 1; ; n++ {
		object := map[string]any{}
		err := documents.Decode(&object)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: document %d: %w", name, n, err)
		case len(object) == 0:
			continue
		}
		if err := m.add(&unstructured.Unstructured{Object: object}); err != nil {
			return fmt.Errorf("%s: document %d: %w", name, n, err)
		}
	}
}

func (m *Manifests) add(u *unstructured.Unstructured) error {
	if u.GetAPIVersion() == "" || u.GetKind() == "" {
		return errors.New("apiVersion or kind is missing")
	}
	if u.IsList() {
		return u.EachListItem(func(o runtime.Object) error { return m.add(o.(*unstructured.Unstructured)) })
	}
	switch {
	case u.GetAPIVersion() != "batch/v1" || u.GetKind() != "Job":
		m.Others = append(m.Others, u)
	case m.Job != nil:
		return fmt.Errorf("a second Job, %s beside %s: only one can be followed; create several with apply -f",
			nameOf(u), nameOf(m.Job))
	default:
		m.Job = u
	}
	return nil
}

// checkNamespace refuses what names another namespace than the command line, as kubectl apply does: one of the two would not
// be heeded.
func (m *Manifests) checkNamespace(given string) error {
	for _, u := range append([]*unstructured.Unstructured{m.Job}, m.Others...) {
		if in := u.GetNamespace(); given != "" && in != "" && in != given {
			return fmt.Errorf("%s %s: its namespace is %s in the file, and %s by --namespace: it is one or the other",
				u.GetKind(), nameOf(u), in, given)
		}
	}
	return nil
}

func nameOf(u *unstructured.Unstructured) string {
	if u.GetName() != "" {
		return u.GetName()
	}
	return u.GetGenerateName()
}
