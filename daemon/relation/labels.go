package relation

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unique"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Labels are the namespace and the labels of a pod, of which very many are kept. The pods of a Job differ only in their indexes.
type Labels struct {
	common unique.Handle[common] // zero: none
	// index is the label batch.kubernetes.io/job-completion-index plus one; 0 if it is missing or not a number, and then
	// it is one of common.
	index int32
}

type common struct{ namespace, encoded string }

// end comes after each name and each value.
const end = "\x00"

// Each pod of a Job has two labels twice, by names with a prefix and by those of older clusters. Where both are alike, and separate Jobs
// are very many, they are kept once and by a name that no label has.
var twice = map[string]struct{ older, brief string }{
	batchv1.ControllerUidLabel: {"controller-uid", "u "},
	batchv1.JobNameLabel:       {"job-name", "j "},
}

// full are the brief names with those that they stand for.
var full = func() map[string]string {
	names := map[string]string{}
	for name, also := range twice {
		names[also.brief] = name
	}
	return names
}()

// older reports whether a label is there by a newer name, too, with the same value.
func older(set map[string]string, name string) bool {
	for newer, also := range twice {
		if name == also.older && alike(set, newer, name) {
			return true
		}
	}
	return false
}

// alike reports whether a set has a label by both of its names, with the same value.
func alike(set map[string]string, name, older string) bool {
	value, ok := set[name]
	other, both := set[older]
	return ok && both && value == other
}

// LabelsOf keeps the labels of a pod in a namespace.
func LabelsOf(namespace string, set map[string]string) (l Labels) {
	if value := set[batchv1.JobCompletionIndexAnnotation]; value != "" {
		if n, err := strconv.ParseUint(value, 10, 31); err == nil && n < math.MaxInt32 && strconv.FormatUint(n, 10) == value {
			l.index = int32(n) + 1
		}
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if l.index > 0 && name == batchv1.JobCompletionIndexAnnotation || older(set, name) {
			continue
		}
		value := set[name]
		if also := twice[name]; also.brief != "" && alike(set, name, also.older) {
			name = also.brief
		}
		b.WriteString(name + end + value + end)
	}
	l.common = unique.Make(common{namespace, b.String()})
	return l
}

// shared returns what other pods have too.
func (l Labels) shared() common {
	if l.common == (unique.Handle[common]{}) {
		return common{}
	}
	return l.common.Value()
}

// Namespace returns the namespace of the pod.
func (l Labels) Namespace() string { return l.shared().namespace }

// WithoutIndex returns what the pods of a Job have in common.
func (l Labels) WithoutIndex() Labels {
	l.index = 0
	return l
}

// Set returns the labels as they were.
func (l Labels) Set() labels.Set {
	set := labels.Set{}
	for encoded := l.shared().encoded; encoded != ""; {
		var name, value string
		name, encoded, _ = strings.Cut(encoded, end)
		value, encoded, _ = strings.Cut(encoded, end)
		if long := full[name]; long != "" {
			name = long
			set[twice[long].older] = value
		}
		set[name] = value
	}
	if l.index > 0 {
		set[batchv1.JobCompletionIndexAnnotation] = strconv.Itoa(int(l.index - 1))
	}
	return set
}
