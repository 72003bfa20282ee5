package submit

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/hostimage"
	"github.com/jobd/jobd/cmd/internal/batchscript"
)

const (
	// scriptDir is where a container has its script.
	scriptDir = "/var/spool/jobd"
	// description is the well-known annotation for people.
	description = "kubernetes.io/description"
	// maxParallel is how many pods a Job of very many may run at a time.
	maxParallel = 10_000
)

// AddScriptFlags adds the flags for scripts of batch systems.
func (o *Options) AddScriptFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.IgnoreDirectives, "ignore-directive", nil,
		"With a script: options of its #SBATCH or #PBS lines to be left out, by their names, such as partition,mail-type")
}

// ScriptNamed returns the script that arguments name, and its own arguments; false if they name none. dash is how many
// arguments stand before --, or less than 0.
func ScriptNamed(args []string, dash int) (file string, rest []string, ok bool) {
	if len(args) == 0 || dash == 0 {
		return "", nil, false
	}
	file, rest = args[0], args[1:]
	if file == "-" {
		return file, rest, true
	}
	info, err := os.Stat(file)
	return file, rest, err == nil && info.Mode().IsRegular() && !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(file))
}

// Script makes a Job of a script and of what its #SBATCH or #PBS lines say, which flags overrule. The notes are for whoever submits it.
//
// The script is an annotation of the Job's template, which a volume of the downward API shows to the container as a file. So the Job is one
// object with all that it needs, and the kernel runs the script by its first line, whatever that names. As an
// argument it would need an interpreter that takes one, and a ConfigMap would have to be removed by somebody.
func (o *Options) Script(flags *pflag.FlagSet, file string, args []string, stdin io.Reader) (m *Manifests, notes []string, err error) {
	if err := o.Check(); err != nil {
		return nil, nil, err
	}
	if len(o.Files) > 0 {
		return nil, nil, errors.New("-f and a script were given: it is one or the other")
	}
	name, text, err := readScript(file, stdin)
	if err != nil {
		return nil, nil, err
	}
	s, err := batchscript.Read(name, text, o.IgnoreDirectives, time.Now())
	if err != nil {
		return nil, nil, err
	}
	wd, err := os.Getwd()
	if err != nil {
		return nil, nil, err
	}
	j, err := o.scriptJob(s, flags.Changed, args, os.LookupEnv, wd)
	if err == nil && o.Here {
		err = hostPathsExist(&j.Spec.Template.Spec)
	}
	if err != nil {
		return nil, nil, err
	}
	values, err := o.sweep(j, flags.Changed, stdin)
	if err != nil {
		return nil, nil, err
	}
	if m, err = manifestsOf(j); err != nil {
		return nil, nil, err
	}
	m.Values = values
	return m, s.Notes, o.finish(m)
}

// readScript reads a script; a long one only so far that it is seen to be too long.
func readScript(file string, stdin io.Reader) (name, text string, err error) {
	in, name := stdin, "stdin"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", "", err
		}
		defer f.Close()
		in, name = f, filepath.Base(file)
	}
	raw, err := io.ReadAll(io.LimitReader(in, batchscript.MaxText+1))
	return name, string(raw), err
}

// scriptJob returns the Job of a script.
func (o *Options) scriptJob(
	s *batchscript.Script, given func(flag string) bool, args []string, getenv func(string) (string, bool), wd string,
) (*batchv1.Job, error) {
	t := o.Template
	if s.Array != nil {
		for _, flag := range []string{"completions", "indexed"} {
			if given(flag) {
				return nil, fmt.Errorf("--%s: %s says by its array which tasks there are: leave the flag out, or --ignore-directive array", flag, s.Name)
			}
		}
	}
	if t.Image == "" && !t.Host {
		t.Image = s.Image
	}
	if t.Image == "" && !t.Host {
		return nil, errors.New("a script runs in a container: name its image by --image, or have it run on this machine by --host")
	}
	if s.CPUs > 0 && !given("cpu") {
		t.CPU = fmt.Sprint(s.CPUs)
	}
	if s.MiB > 0 && !given("memory") {
		t.Memory = fmt.Sprintf("%dMi", s.MiB)
	}
	if s.GPUs > 0 && !given("gpus") {
		t.GPUs = s.GPUs
	}
	if !given("workdir") {
		for _, dir := range []string{s.ContainerDir, s.Dir} {
			if dir != "" {
				t.WorkDir = dir
			}
		}
	}
	t.Env = slices.Concat(s.Env, t.Env)
	t.Volumes = slices.Concat(s.Mounts, t.Volumes)
	at := scriptDir
	if t.Host {
		at = hostimage.VolumesDir + "/script"
	}
	inContainer := at + "/" + fileName(s.Name)
	var err error
	if t.Command, err = s.Command(inContainer, args); err != nil {
		return nil, err
	}
	j, err := t.Job(getenv, wd, given)
	if err != nil {
		return nil, err
	}
	pod := &j.Spec.Template.Spec
	c := &pod.Containers[0]
	for _, f := range []*batchscript.File{s.Output, s.Error} {
		if f != nil && !t.Host && !isKept(f.Pattern, c) {
			return nil, fmt.Errorf("%s %s: the file would be lost with the container: mount a directory for it, such as with --volume %s:%[3]s "+
				"--workdir %[3]s; or leave the output to jobctl logs, with --ignore-directive", f.At, f.Pattern, wd)
		}
	}
	c.Env = slices.Concat(s.Environment(wd), c.Env)
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "script", MountPath: at, ReadOnly: true})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "script", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
		Items: []corev1.DownwardAPIVolumeFile{{
			Path: fileName(s.Name), Mode: ptr.To[int32](0o755),
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + batch.ScriptAnnotation + "']"},
		}},
	}}})
	j.Spec.Template.Annotations = map[string]string{batch.ScriptAnnotation: s.Text}
	if s.Time > 0 && !given("deadline") && !given("pod-deadline") {
		pod.ActiveDeadlineSeconds = ptr.To(int64(s.Time.Seconds()))
	}
	j.GenerateName = containerName(cmp.Or(s.JobName, strings.TrimSuffix(s.Name, path.Ext(s.Name)))) + "-"
	o.array(j, s, given)
	if s.Comment != "" {
		annotate(j, description, s.Comment)
	}
	if len(s.After) > 0 && !given("after") {
		var needs []string
		for _, n := range s.After {
			needs = append(needs, n.Name+":"+n.How)
		}
		annotate(j, batch.AfterAnnotation, strings.Join(needs, ","))
		j.Spec.Suspend = ptr.To(true)
	}
	if !s.Begin.IsZero() && !given("at") {
		annotate(j, batch.StartAtAnnotation, s.Begin.Format(time.RFC3339))
		j.Spec.Suspend = ptr.To(true)
	}
	return j, nil
}

// array makes the Job one with an index for each task. A task that fails leaves the others alone, as in batch systems.
func (o *Options) array(j *batchv1.Job, s *batchscript.Script, given func(flag string) bool) {
	if s.Array == nil {
		return
	}
	n, _, _ := s.Array.Tasks()
	j.Spec.Completions = ptr.To(int32(n))
	o.independent(j, int(n), given)
	annotate(j, batch.ArrayAnnotation, s.Array.Text)
	if s.Array.Limit > 0 && !given("parallelism") {
		j.Spec.Parallelism = ptr.To(min(*j.Spec.Parallelism, int32(s.Array.Limit)))
	}
}

func annotate(j *batchv1.Job, name, value string) {
	if j.Annotations == nil {
		j.Annotations = map[string]string{}
	}
	j.Annotations[name] = value
}

// isKept reports whether a file of the container outlives it.
func isKept(file string, c *corev1.Container) bool {
	if strings.HasPrefix(file, "/dev/") {
		return true
	}
	if !path.IsAbs(file) {
		if c.WorkingDir == "" {
			return false
		}
		file = path.Join(c.WorkingDir, file)
	}
	file = path.Clean(file)
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
		return !m.ReadOnly && strings.HasPrefix(file, strings.TrimSuffix(path.Clean(m.MountPath), "/")+"/")
	})
}

// fileName makes the name of a script's file one that a volume can have.
func fileName(name string) string {
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '_'
	}, name)
	clean = strings.TrimLeft(clean, ".")
	if clean == "" || len(clean) > 200 {
		return "script"
	}
	return clean
}
