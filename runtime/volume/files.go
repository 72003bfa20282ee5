package volume

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/oci"
)

// hasFiles reports whether a volume consists of files that jobd writes: from objects of the API, or the pod's own
// fields.
func hasFiles(v *corev1.Volume) bool {
	return v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
}

// maxFiles bounds what the files of all volumes of one pod take, in bytes. Most of them are in memory, which is in no limit of
// the pod, and one key of a Secret may be asked for in thousands of files.
const maxFiles = 32 << 20

// room is what is left of maxFiles.
type room int

// levelSize is what each directory above a file takes, but for the first, in which there may be many.
const levelSize = 2048

// take takes the room of a file: whole pages of memory, or what its name and its place on the disk cost at least, and those of
// the directories that its path has.
func (r *room) take(path string, bytes int, inMemory bool) error {
	unit := 512
	if inMemory {
		unit = 4096
	}
	levels := max(0, strings.Count(path, "/")-1)
	if *r -= room(max(1, (bytes+unit-1)/unit)*unit + levels*levelSize); *r < 0 {
		return fmt.Errorf("the files of the pod's volumes take more than %d bytes: %w", maxFiles, errdefs.ErrResourceExhausted)
	}
	return nil
}

// filling is what the volumes of a pod share while they are filled. Each object is read once, however many volumes it is in.
type filling struct {
	objects oci.Objects
	// configMaps are those that were read, as bytes.
	configMaps map[string]map[string][]byte
	room       room
}

func (v *Volumes) filling() *filling {
	return &filling{objects: oci.RememberObjects(v.node.Objects), configMaps: map[string]map[string][]byte{}, room: maxFiles}
}

// files writes a volume of files and returns its path. Those of ConfigMaps lie on disk, all others in memory, as with a
// kubelet. As there, a pod that has its files goes on with them when what they are made from cannot be had, or is gone: the
// set-up is repeated after a restart of the daemon.
func (v *Volumes) files(pod *corev1.Pod, volume *corev1.Volume, filling *filling) (string, error) {
	dir, inMemory := v.filesDir(pod, volume)
	content, err := v.content(pod, volume, filling)
	if err != nil {
		if goOn(dir) {
			return dir, nil
		}
		return "", err
	}
	if err := files.MkdirAll(filepath.Dir(dir), 0o711); err != nil {
		return "", err
	}
	group, mode := podFSGroup(pod), uint32(0o777)
	if group >= 0 {
		mode |= unix.S_ISGID
	}
	if inMemory && !onTmpfs(filepath.Dir(dir)) {
		if err := mountTmpfs(dir, 2*maxFiles, mode, group); err != nil { // a change has the files twice
			return "", err
		}
	} else if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	} else if err := errors.Join(os.Chown(dir, -1, group), unix.Chmod(dir, mode)); err != nil {
		return "", err
	}
	return dir, writeFiles(dir, content, group)
}

// goOn reports whether a directory has the files of a volume. Those of a set-up that was about to end are all shown then.
func goOn(dir string) bool {
	entries, err := os.ReadDir(filepath.Join(dir, dataLink))
	if err != nil {
		return false
	}
	files := map[string]file{}
	for _, e := range entries {
		files[e.Name()] = file{}
	}
	return tidy(dir, files) == nil
}

func (v *Volumes) filesDir(pod *corev1.Pod, volume *corev1.Volume) (dir string, inMemory bool) {
	if volume.ConfigMap != nil {
		return filepath.Join(v.rootPod(string(pod.UID)), "volumes", "files", volume.Name), false
	}
	return filepath.Join(v.statePod(string(pod.UID)), "volumes", "files", volume.Name), true
}

// Refresh rewrites what has changed of those volumes of files that a pod already has. Containers see all files of a
// volume change at once, unless they are mounted by a subPath.
func (v *Volumes) Refresh(pod *corev1.Pod) error {
	var failed []error
	filling := v.filling()
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if !hasFiles(volume) {
			continue
		}
		dir, _ := v.filesDir(pod, volume)
		if _, err := os.Lstat(filepath.Join(dir, dataLink)); errors.Is(err, os.ErrNotExist) {
			continue // SetUp has not made it yet
		}
		content, err := v.content(pod, volume, filling)
		if err == nil {
			err = writeFiles(dir, content, podFSGroup(pod))
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", volume.Name, err))
		}
	}
	return errors.Join(failed...)
}

// content returns what a volume of files is to hold, by path. Files of the same key share its bytes.
func (v *Volumes) content(pod *corev1.Pod, volume *corev1.Volume, filling *filling) (map[string]file, error) {
	dir, inMemory := v.filesDir(pod, volume)
	c := collector{
		Volumes: v, filling: filling, pod: pod, dir: dir, inMemory: inMemory, files: map[string]file{},
	}
	var err error
	switch {
	case volume.ConfigMap != nil:
		s := volume.ConfigMap
		c.mode, c.user = modeOf(s.DefaultMode), s.DefaultUser
		err = c.configMap(s.Name, s.Items, s.Optional)
	case volume.Secret != nil:
		s := volume.Secret
		c.mode, c.user = modeOf(s.DefaultMode), s.DefaultUser
		err = c.secret(s.SecretName, s.Items, s.Optional)
	case volume.DownwardAPI != nil:
		c.mode, c.user = modeOf(volume.DownwardAPI.DefaultMode), volume.DownwardAPI.DefaultUser
		err = c.downward(volume.DownwardAPI.Items)
	case volume.Projected != nil:
		c.mode, c.user = modeOf(volume.Projected.DefaultMode), volume.Projected.DefaultUser
		for i := range volume.Projected.Sources {
			if err = c.projection(&volume.Projected.Sources[i]); err != nil {
				break
			}
		}
	}
	return c.files, err
}

// collector gathers the files of one volume. A later source overrides an earlier one.
type collector struct {
	*Volumes
	*filling
	pod *corev1.Pod
	dir string // where the files are to be
	// inMemory says that they lie there, and not on the disk.
	inMemory bool
	mode     uint32
	user     *int64 // who owns files that name no owner; nil: root
	files    map[string]file
}

// put adds a file.
func (c *collector) put(path string, f file) error {
	c.files[path] = f
	return c.room.take(path, len(f.content), c.inMemory)
}

func (c *collector) projection(s *corev1.VolumeProjection) error {
	switch {
	case s.ConfigMap != nil:
		return c.configMap(s.ConfigMap.Name, s.ConfigMap.Items, s.ConfigMap.Optional)
	case s.Secret != nil:
		return c.secret(s.Secret.Name, s.Secret.Items, s.Secret.Optional)
	case s.DownwardAPI != nil:
		return c.downward(s.DownwardAPI.Items)
	case s.ServiceAccountToken != nil:
		return c.token(s.ServiceAccountToken)
	}
	return fmt.Errorf("projected volumes of this source are not served: %w", errdefs.ErrNotImplemented)
}

func (c *collector) configMap(name string, items []corev1.KeyToPath, optional *bool) error {
	object, err := c.objects.ConfigMap(c.pod.Namespace, name)
	if errdefs.IsNotFound(err) && isTrue(optional) {
		return nil
	} else if err != nil {
		return err
	}
	data, ok := c.configMaps[name]
	if !ok {
		data = map[string][]byte{}
		for key, value := range object.Data {
			data[key] = []byte(value)
		}
		for key, value := range object.BinaryData {
			data[key] = value
		}
		c.configMaps[name] = data
	}
	return c.add(data, items, optional, "configmap references non-existent config key: %s")
}

func (c *collector) secret(name string, items []corev1.KeyToPath, optional *bool) error {
	object, err := c.objects.Secret(c.pod.Namespace, name)
	if errdefs.IsNotFound(err) && isTrue(optional) {
		return nil
	} else if err != nil {
		return err
	}
	return c.add(object.Data, items, optional, "references non-existent secret key: %s")
}

// add adds the keys that items name, or all of them without items.
func (c *collector) add(data map[string][]byte, items []corev1.KeyToPath, optional *bool, missing string) error {
	if len(items) == 0 {
		for key, value := range data {
			if err := c.put(key, file{content: value, mode: c.mode, user: c.owner(nil)}); err != nil {
				return err
			}
		}
		return nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		switch {
		case ok:
			f := file{content: value, mode: c.or(item.Mode), user: c.owner(item.User)}
			if err := c.put(filepath.Clean(item.Path), f); err != nil {
				return err
			}
		case !isTrue(optional):
			return fmt.Errorf(missing, item.Key)
		}
	}
	return nil
}

func (c *collector) downward(items []corev1.DownwardAPIVolumeFile) error {
	in := c.input(c.pod, &corev1.Container{}, nil)
	for i := range items {
		content, err := oci.FileContent(in, &items[i])
		if err != nil {
			return err
		}
		f := file{content: []byte(content), mode: c.or(items[i].Mode), user: c.owner(items[i].User)}
		if err := c.put(filepath.Clean(items[i].Path), f); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) or(mode *int32) uint32 {
	if mode != nil {
		return uint32(*mode)
	}
	return c.mode
}

// owner returns the owner of a file that may name one.
func (c *collector) owner(user *int64) int {
	return int(ptr.Deref(cmp.Or(user, c.user), 0))
}

func modeOf(mode *int32) uint32 {
	if mode == nil {
		return 0o644
	}
	return uint32(*mode)
}

// FileObjects returns the names of the ConfigMaps and Secrets that a pod's volumes and variables are made of, each
// once.
func FileObjects(spec *corev1.PodSpec) (configMaps, secrets []string) {
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if v.ConfigMap != nil {
			configMaps = append(configMaps, v.ConfigMap.Name)
		}
		if v.Secret != nil {
			secrets = append(secrets, v.Secret.SecretName)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				configMaps = append(configMaps, s.ConfigMap.Name)
			}
			if s.Secret != nil {
				secrets = append(secrets, s.Secret.Name)
			}
		}
	}
	for c := range podspec.Containers(spec) {
		for _, from := range c.EnvFrom {
			if from.ConfigMapRef != nil {
				configMaps = append(configMaps, from.ConfigMapRef.Name)
			}
			if from.SecretRef != nil {
				secrets = append(secrets, from.SecretRef.Name)
			}
		}
		for j := range c.Env {
			from := c.Env[j].ValueFrom
			if from != nil && from.ConfigMapKeyRef != nil {
				configMaps = append(configMaps, from.ConfigMapKeyRef.Name)
			}
			if from != nil && from.SecretKeyRef != nil {
				secrets = append(secrets, from.SecretKeyRef.Name)
			}
		}
	}
	slices.Sort(configMaps)
	slices.Sort(secrets)
	return slices.Compact(configMaps), slices.Compact(secrets)
}
