package oci

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/jobd/jobd/api/podspec"
)

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// containerEnv is the environment of the process and, separately, the variables that $(VAR) may refer to.
type containerEnv struct {
	process  []string
	at       map[string]int // index in process of each name
	declared map[string]string
	spent    int // of maxEnv
}

// maxEnv bounds the bytes of a container's variables and of what $(VAR) makes of its arguments: the kernel gives no
// process more than 6 MiB of both. A short manifest may ask for any amount: a ConfigMap may be named many times, and of
// forty variables that each name the one before it twice the last one has a terabyte.
const maxEnv = 8 << 20

func (e *containerEnv) spend(bytes int) error {
	e.spent += bytes
	return e.affords(0)
}

// affords returns an error unless that much more can be spent.
func (e *containerEnv) affords(bytes int) error {
	if e.spent+bytes > maxEnv {
		return fmt.Errorf("variables and arguments take more than %d bytes: %w", maxEnv, errdefs.ErrInvalidArgument)
	}
	return nil
}

func (e *containerEnv) lookup(name string) (string, bool) {
	value, ok := e.declared[name]
	return value, ok
}

// expand replaces $(VAR) by the variables that have been declared so far. What it returns can be spent, and is
// once it is set as a variable or becomes an argument.
func (e *containerEnv) expand(s string) (string, error) {
	size := 0
	eachPart(s, e.lookup, func(part string) { size += len(part) })
	if err := e.affords(size); err != nil {
		return "", err
	}
	return expand(s, e.lookup), nil
}

// expandAll expands each element of a list.
func (e *containerEnv) expandAll(list []string) ([]string, error) {
	out := make([]string, len(list))
	for i, s := range list {
		var err error
		if out[i], err = e.expand(s); err == nil {
			err = e.spend(len(out[i]))
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// set sets NAME=value, in place of an earlier value of that name.
func (e *containerEnv) set(name, value string) error {
	entry := name + "=" + value
	if i, ok := e.at[name]; ok {
		e.process[i] = entry
	} else {
		e.at[name] = len(e.process)
		e.process = append(e.process, entry)
	}
	return e.spend(len(entry))
}

// declare sets a variable that later ones may refer to.
func (e *containerEnv) declare(name, value string) error {
	e.declared[name] = value
	return e.set(name, value)
}

// environment returns TERM for a terminal, the image's variables, then HOSTNAME, then the container's in their order,
// where each value may refer to the variables before it. Each object and file is read once, however many variables come
// from it.
func environment(in Input) (*containerEnv, error) {
	in.Objects, in.envFiles, in.VolumeFile = RememberObjects(in.Objects), map[string]envFile{}, bounded(in.VolumeFile)
	e := &containerEnv{at: map[string]int{}, declared: map[string]string{}}
	path, value, _ := strings.Cut(defaultPath, "=")
	if err := e.set(path, value); err != nil {
		return nil, err
	}
	if in.Container.TTY {
		if err := e.set("TERM", "xterm"); err != nil {
			return nil, err
		}
	}
	for _, entry := range in.Image.Env {
		name, value, _ := strings.Cut(entry, "=")
		if err := e.set(name, value); err != nil {
			return nil, err
		}
	}
	if err := e.set("HOSTNAME", Hostname(in.Pod, in.NodeName)); err != nil {
		return nil, err
	}
	return e, e.declareAll(in)
}

// bounded returns a function that reads no more than maxObjects of files: of each, one variable may be all that is asked for.
func bounded(read func(volume, path string) ([]byte, error)) func(volume, path string) ([]byte, error) {
	if read == nil {
		return nil
	}
	size := 0
	return func(volume, path string) ([]byte, error) {
		content, err := read(volume, path)
		if size += len(content); err == nil && size > maxObjects {
			return nil, fmt.Errorf("the files with variables take more than %d bytes together: %w", maxObjects, errdefs.ErrResourceExhausted)
		}
		return content, err
	}
}

// declareAll adds the variables that the API, the objects of envFrom and the container's own list declare.
func (e *containerEnv) declareAll(in Input) error {
	for _, v := range serviceEnv(in) {
		if err := e.declare(v.Name, v.Value); err != nil {
			return err
		}
	}
	for i := range in.Container.EnvFrom {
		values, err := envFrom(in, &in.Container.EnvFrom[i])
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(values)) {
			if err := e.declare(name, values[name]); err != nil {
				return err
			}
		}
	}
	for i := range in.Container.Env {
		v := &in.Container.Env[i]
		value, ok, err := envValue(in, v, e)
		if err != nil {
			return err
		}
		if ok {
			if err := e.declare(v.Name, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// envFrom returns the variables that an object provides, one for each key; none if the object is optional and missing.
func envFrom(in Input, from *corev1.EnvFromSource) (map[string]string, error) {
	values, optional, err := map[string]string{}, false, error(nil)
	switch {
	case from.ConfigMapRef != nil:
		var c *corev1.ConfigMap
		optional = isTrue(from.ConfigMapRef.Optional)
		if c, err = objects(in).ConfigMap(in.Pod.Namespace, from.ConfigMapRef.Name); err == nil {
			for key, value := range c.Data {
				values[from.Prefix+key] = value
			}
		}
	case from.SecretRef != nil:
		var s *corev1.Secret
		optional = isTrue(from.SecretRef.Optional)
		if s, err = objects(in).Secret(in.Pod.Namespace, from.SecretRef.Name); err == nil {
			for key, value := range s.Data {
				values[from.Prefix+key] = string(value)
			}
		}
	}
	if optional && errdefs.IsNotFound(err) {
		return nil, nil
	}
	return values, err
}

// configMapKey returns the value of one key; ok is false if the key is optional and missing.
func configMapKey(in Input, ref *corev1.ConfigMapKeySelector) (value string, ok bool, err error) {
	c, err := objects(in).ConfigMap(in.Pod.Namespace, ref.Name)
	if err == nil {
		value, ok = c.Data[ref.Key]
	}
	if isTrue(ref.Optional) && (err == nil || errdefs.IsNotFound(err)) {
		return value, ok, nil
	}
	if err == nil && !ok {
		err = fmt.Errorf("couldn't find key %s in ConfigMap %s/%s", ref.Key, in.Pod.Namespace, ref.Name)
	}
	return value, ok, err
}

// secretKey does the same for a Secret.
func secretKey(in Input, ref *corev1.SecretKeySelector) (value string, ok bool, err error) {
	s, err := objects(in).Secret(in.Pod.Namespace, ref.Name)
	var data []byte
	if err == nil {
		data, ok = s.Data[ref.Key]
	}
	if isTrue(ref.Optional) && (err == nil || errdefs.IsNotFound(err)) {
		return string(data), ok, nil
	}
	if err == nil && !ok {
		err = fmt.Errorf("couldn't find key %s in Secret %s/%s", ref.Key, in.Pod.Namespace, ref.Name)
	}
	return string(data), ok, err
}

// envValue returns the value of one variable; ok is false if its source is optional and missing.
func envValue(in Input, v *corev1.EnvVar, e *containerEnv) (value string, ok bool, err error) {
	from := v.ValueFrom
	switch {
	case from == nil:
		value, err = e.expand(v.Value)
	case from.FieldRef != nil:
		value, err = fieldValue(in, from.FieldRef.FieldPath)
	case from.ResourceFieldRef != nil:
		value, err = resourceValue(in, from.ResourceFieldRef)
	case from.ConfigMapKeyRef != nil:
		return configMapKey(in, from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return secretKey(in, from.SecretKeyRef)
	case from.FileKeyRef != nil:
		return fileKey(in, from.FileKeyRef)
	default:
		err = fmt.Errorf("env %q: this valueFrom is not served: %w", v.Name, errdefs.ErrNotImplemented)
	}
	return value, err == nil, err
}

// fieldValue returns what the downward API has for a path in environment variables.
func fieldValue(in Input, path string) (string, error) {
	pod := in.Pod
	switch path {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "spec.nodeName":
		return in.NodeName, nil
	case "spec.serviceAccountName":
		return pod.Spec.ServiceAccountName, nil
	case "status.hostIP":
		return first(in.HostIPs), nil
	case "status.hostIPs":
		return strings.Join(in.HostIPs, ","), nil
	case "status.podIP":
		return first(podIPs(in)), nil
	case "status.podIPs":
		return strings.Join(podIPs(in), ","), nil
	}
	if key, ok := subscript(path, "metadata.labels"); ok {
		return pod.Labels[key], nil
	}
	if key, ok := subscript(path, "metadata.annotations"); ok {
		return pod.Annotations[key], nil
	}
	return "", fmt.Errorf("unsupported fieldPath: %v: %w", path, errdefs.ErrInvalidArgument)
}

// podIPs returns the addresses of the pod, or of the host for a pod in the host's network.
func podIPs(in Input) []string {
	if len(in.PodIPs) == 0 && in.Pod.Spec.HostNetwork {
		return in.HostIPs
	}
	return in.PodIPs
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}

// subscript returns the key in name['key'].
func subscript(path, name string) (string, bool) {
	rest, ok := strings.CutPrefix(path, name+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(rest, "']")
}

// resourceValue returns a request or limit of a container in units of the divisor, rounded up. A limit that is not set,
// or is 0, counts as that of the whole pod, or else as what the node can offer.
func resourceValue(in Input, ref *corev1.ResourceFieldSelector) (string, error) {
	c, err := containerNamed(in, ref.ContainerName)
	if err != nil {
		return "", err
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	var quantity resource.Quantity
	switch kind {
	case "limits":
		if quantity = c.Resources.Limits[corev1.ResourceName(name)]; quantity.IsZero() && in.Pod.Spec.Resources != nil {
			quantity = in.Pod.Spec.Resources.Limits[corev1.ResourceName(name)]
		}
		if quantity.IsZero() {
			quantity = in.Allocatable[corev1.ResourceName(name)]
		}
	case "requests":
		quantity = request(c, corev1.ResourceName(name))
	default:
		return "", fmt.Errorf("unsupported container resource : %v: %w", ref.Resource, errdefs.ErrInvalidArgument)
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	if name == string(corev1.ResourceCPU) {
		return strconv.FormatInt(ceilDiv(podspec.MilliAmount(quantity), podspec.MilliAmount(divisor)), 10), nil
	}
	return strconv.FormatInt(ceilDiv(podspec.Amount(quantity), podspec.Amount(divisor)), 10), nil
}

func ceilDiv(a, b int64) int64 {
	if a%b > 0 {
		return a/b + 1
	}
	return a / b
}

func containerNamed(in Input, name string) (*corev1.Container, error) {
	if name == "" || name == in.Container.Name {
		return in.Container, nil
	}
	if c := podspec.Find(&in.Pod.Spec, name); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("container %s not found: %w", name, errdefs.ErrNotFound)
}
