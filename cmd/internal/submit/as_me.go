package submit

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/hostimage"
)

// carried are the variables that a command of this machine has as they are here, beside those of the locale: what is needed to find
// programs and what they need. HOME, USER and LOGNAME are the machine's to say.
var carried = []string{
	"PATH", "SHELL", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "LANG", "LANGUAGE",
	"LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE", "LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES", "LC_MONETARY", "LC_NAME",
	"LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
}

// hostCommand completes a template of a command of this machine: where and with what it runs. wd is empty if the machine is another one, and
// then nothing of here is taken.
func (t *Template) hostCommand(getenv func(string) (string, bool), wd string) error {
	switch {
	case t.Image != "" && !hostimage.Is(t.Image):
		return errors.New("--host and --image were given: it is one or the other")
	case t.AsMe || t.InPlace:
		return errors.New("--as-me and --here are for --image: with --host it is so anyway")
	case len(t.Volumes) > 0:
		return errors.New("--volume is for --image: with --host all files are where they are")
	case t.Pull != "":
		return errors.New("--pull is for --image: with --host nothing is pulled")
	case len(t.Command) == 0:
		return errors.New("--host needs a command: jobctl submit --host -- COMMAND ARG...")
	}
	t.Image = hostimage.Name
	for i, arg := range t.Command { // $(NAME) is a variable's value, and $$ the number of a process, as in any shell
		t.Command[i] = strings.ReplaceAll(arg, "$$", "$$$$")
	}
	if wd == "" {
		if t.WorkDir != "" && !path.IsAbs(t.WorkDir) {
			return fmt.Errorf("--workdir: %s must be absolute: it is on another machine", t.WorkDir)
		}
		return nil
	}
	if t.WorkDir = cmp.Or(t.WorkDir, wd); !filepath.IsAbs(t.WorkDir) {
		t.WorkDir = filepath.Join(wd, t.WorkDir)
	}
	if dir := filepath.Clean(t.WorkDir); dir == hostimage.TmpDir || strings.HasPrefix(dir, hostimage.TmpDir+"/") {
		return fmt.Errorf("%s is below %s, which a Job has of its own: go to another directory, or name one by --workdir", dir, hostimage.TmpDir)
	}
	var env []string
	for _, name := range carried {
		named := func(e string) bool { return e == name || strings.HasPrefix(e, name+"=") }
		if value, ok := getenv(name); ok && !slices.ContainsFunc(t.Env, named) {
			env = append(env, name+"="+strings.ReplaceAll(value, "$", "$$"))
		}
	}
	t.Env = append(env, t.Env...)
	return nil
}

// asMe makes a pod run as whoever runs this command.
func asMe(pod *corev1.PodSpec) error {
	groups, err := os.Getgroups()
	if err != nil || os.Getuid() < 0 {
		return fmt.Errorf("--as-me: there is no user here that a pod could be: %w", err)
	}
	pod.SecurityContext = &corev1.PodSecurityContext{RunAsUser: ptr.To(int64(os.Getuid())), RunAsGroup: ptr.To(int64(os.Getgid()))}
	for _, g := range groups {
		pod.SecurityContext.SupplementalGroups = append(pod.SecurityContext.SupplementalGroups, int64(g))
	}
	return nil
}

// inPlace gives a container the working directory, at the same path.
func inPlace(pod *corev1.PodSpec, c *corev1.Container, wd string) error {
	if wd == "" || wd == "/" {
		return errors.New("--here is for a directory of the machine that runs the Job, and not for /")
	}
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "here", VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: wd, Type: ptr.To(corev1.HostPathDirectory)},
	}})
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "here", MountPath: wd})
	c.WorkingDir = cmp.Or(c.WorkingDir, wd)
	return nil
}
