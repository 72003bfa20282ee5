package batch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
)

// IndexEnvAnnotation names the ConfigMap with the values of each index of an Indexed Job. Where a variable of a container in the Job's
// template is the key lr of that ConfigMap (configMapKeyRef), it is the key 3.lr in the pod of index 3. In a cluster, which does not
// know this, there is no key lr, and so no container starts.
const IndexEnvAnnotation = "jobd.dev/index-env"

// IndexEnv is what IndexEnvAnnotation asks for.
type IndexEnv struct {
	ConfigMap string
	// Keys are those of the ConfigMap that containers use, without the index before them, in the order of the template.
	Keys []string
}

// IndexValue is the value of one key for an index.
type IndexValue struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// IndexEnvOf returns what a Job's annotation asks for; false if the Job has none.
func IndexEnvOf(j *batchv1.Job) (IndexEnv, bool) {
	e := IndexEnv{ConfigMap: j.Annotations[IndexEnvAnnotation]}
	if e.ConfigMap == "" {
		return e, false
	}
	eachIndexRef(&j.Spec.Template.Spec, e.ConfigMap, func(ref *corev1.ConfigMapKeySelector, _ *corev1.Container, _ int) {
		if !slices.Contains(e.Keys, ref.Key) {
			e.Keys = append(e.Keys, ref.Key)
		}
	})
	return e, true
}

// IndexKey returns the key of a value for an index.
func IndexKey(index int, key string) string { return strconv.Itoa(index) + "." + key }

// SetIndexEnv makes the containers of a pod use the values of its index.
func SetIndexEnv(spec *corev1.PodSpec, configMap string, index int) {
	eachIndexRef(spec, configMap, func(ref *corev1.ConfigMapKeySelector, _ *corev1.Container, _ int) {
		ref.Key = IndexKey(index, ref.Key)
	})
}

// eachIndexRef calls fn with each use of a key of the ConfigMap as a variable, and the place of the variable in its container.
func eachIndexRef(spec *corev1.PodSpec, configMap string, fn func(*corev1.ConfigMapKeySelector, *corev1.Container, int)) {
	for c := range podspec.Containers(spec) {
		for i := range c.Env {
			if from := c.Env[i].ValueFrom; from != nil && from.ConfigMapKeyRef != nil && from.ConfigMapKeyRef.Name == configMap {
				fn(from.ConfigMapKeyRef, c, i)
			}
		}
	}
}

// PodIndexValues returns the values of a pod's index: the task that it is of an array, and what it has of its ConfigMap of values, with that
// ConfigMap's data.
func PodIndexValues(p *corev1.Pod, data map[string]string) (all []IndexValue) {
	if task := p.Annotations[ArrayAnnotation]; task != "" {
		if _, ok := taskNumber(task); ok {
			all = append(all, IndexValue{taskName, task})
		}
	}
	configMap := p.Annotations[IndexEnvAnnotation]
	if configMap == "" {
		return all
	}
	index := p.Annotations[batchv1.JobCompletionIndexAnnotation] + "."
	eachIndexRef(&p.Spec, configMap, func(ref *corev1.ConfigMapKeySelector, _ *corev1.Container, _ int) {
		name, ok := strings.CutPrefix(ref.Key, index)
		value, known := data[ref.Key]
		if v := (IndexValue{name, value}); ok && known && !slices.Contains(all, v) {
			all = append(all, v)
		}
	})
	return all
}

// IndexValues are the values of all indexes of a Job. Nil: it has none.
type IndexValues struct {
	Array Array // whose tasks they are; nil if they are none
	IndexEnv
	Data map[string]string // of the ConfigMap
}

// IndexValuesOf returns the values of a Job's indexes; nil if it has none. read returns the data of the ConfigMap that it may name; nil if
// there is none: then there are no values yet.
func IndexValuesOf(j *batchv1.Job, read func(configMap string) (map[string]string, error)) (*IndexValues, error) {
	v := &IndexValues{Array: arrayOf(j)}
	env, ok := IndexEnvOf(j)
	if !ok {
		if v.Array == nil {
			return nil, nil
		}
		return v, nil
	}
	data, err := read(env.ConfigMap)
	if data == nil || err != nil {
		return nil, err
	}
	v.IndexEnv, v.Data = env, data
	return v, nil
}

// Names returns what the values are called.
func (v *IndexValues) Names() (all []string) {
	if v.Array != nil {
		all = append(all, taskName)
	}
	return append(all, v.Keys...)
}

// Until returns an index from which on none has values.
func (v *IndexValues) Until() int64 { return max(v.Array.Tasks(), int64(len(v.Data))) }

// Of returns the values of an index, as far as there are any.
func (v *IndexValues) Of(index int) (all []IndexValue) {
	if v == nil {
		return nil
	}
	if task, ok := v.Array.Task(index); ok {
		all = append(all, IndexValue{taskName, strconv.FormatInt(task, 10)})
	}
	for _, key := range v.Keys {
		if value, ok := v.Data[IndexKey(index, key)]; ok {
			all = append(all, IndexValue{Name: key, Value: value})
		}
	}
	return all
}

// Words returns the values of an index as they are shown beside it, see IndexWords; empty if there are none.
func (v *IndexValues) Words(index int) string { return IndexWords(v.Of(index)) }

// Missing returns the first key, with its index, that the ConfigMap lacks for a Job of so many indexes; empty if it has all.
func (v *IndexValues) Missing(completions int) string {
	for index := range completions {
		for _, key := range v.Keys {
			if _, ok := v.Data[IndexKey(index, key)]; !ok {
				return IndexKey(index, key)
			}
		}
	}
	return ""
}

const (
	// maxValueWords and maxValuesWords are how many bytes of one value, and of all of an index, are shown beside it.
	maxValueWords  = 60
	maxValuesWords = 200
)

// IndexWords returns the values of an index as they are shown beside it: lr=0.1,bs=32. A value that does not read as one word is quoted,
// so that the text neither has a line break nor a parenthesis outside of quotes.
func IndexWords(values []IndexValue) string {
	var out strings.Builder
	for i, v := range values {
		value := v.Value
		if len(value) > maxValueWords {
			value = strings.ToValidUTF8(value[:maxValueWords], "") + "…"
		}
		if value == "" || strings.ContainsFunc(value, func(r rune) bool { return !wordRune(r) }) {
			value = strconv.Quote(value)
		}
		text := v.Name + "=" + value
		if out.Len()+len(text) > maxValuesWords && i > 0 {
			fmt.Fprintf(&out, ",+%d", len(values)-i)
			break
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString(text)
	}
	return out.String()
}

func wordRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-+/:@%~…", r)
}

// validateIndexEnv checks the annotation of a Job, or of the Jobs of a CronJob.
func validateIndexEnv(annotations map[string]string, spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	name, ok := annotations[IndexEnvAnnotation]
	if !ok {
		return nil
	}
	path = path.Key(IndexEnvAnnotation)
	if wrong := validation.NameIsDNSSubdomain(name, false); len(wrong) > 0 {
		return field.ErrorList{field.Invalid(path, name, "must be the name of a ConfigMap: "+strings.Join(wrong, "; "))}
	}
	if !isIndexed(spec) {
		return field.ErrorList{field.Invalid(path, name, "needs spec.completionMode: Indexed, since the ConfigMap has values of each index")}
	}
	var errs field.ErrorList
	used := false
	eachIndexRef(&spec.Template.Spec, name, func(ref *corev1.ConfigMapKeySelector, c *corev1.Container, i int) {
		used = true
		if ptr.Deref(ref.Optional, false) {
			errs = append(errs, field.Invalid(path, name, fmt.Sprintf(
				"env %s of container %s must not be optional: without its value, the container would run with none", c.Env[i].Name, c.Name)))
		}
	})
	if !used {
		errs = append(errs, field.Invalid(path, name,
			"no container of spec.template uses the ConfigMap: a variable of env needs valueFrom.configMapKeyRef with its name, and a key without the index"))
	}
	return errs
}

// validateIndexEnvUpdate refuses a change: pods that run have the values of before.
func validateIndexEnvUpdate(job, old *batchv1.Job, path *field.Path) field.ErrorList {
	return validation.ValidateImmutableField(job.Annotations[IndexEnvAnnotation], old.Annotations[IndexEnvAnnotation], path.Key(IndexEnvAnnotation))
}
