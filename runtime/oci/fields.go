package oci

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// FileContent is what a file of a downwardAPI volume holds: a field of the pod, all its labels or annotations, or a
// resource of one of its containers.
func FileContent(in Input, f *corev1.DownwardAPIVolumeFile) (string, error) {
	switch {
	case f.FieldRef == nil:
		return resourceValue(in, f.ResourceFieldRef)
	case f.FieldRef.FieldPath == "metadata.labels":
		return lines(in.Pod.Labels), nil
	case f.FieldRef.FieldPath == "metadata.annotations":
		return lines(in.Pod.Annotations), nil
	}
	return fieldValue(in, f.FieldRef.FieldPath)
}

// lines are KEY="VALUE", sorted by the key.
func lines(values map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		out = append(out, fmt.Sprintf("%s=%q", key, values[key]))
	}
	return strings.Join(out, "\n")
}

// ExpandSubPath replaces $(VAR) in a subPathExpr by the container's own variables. Each must be there.
func ExpandSubPath(in Input, path string) (string, error) {
	environment, err := environment(in)
	if err != nil {
		return "", err
	}
	var missing []string
	path = expand(path, func(name string) (string, bool) {
		value, ok := environment.lookup(name)
		if !ok {
			missing = append(missing, name)
		}
		return value, ok
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("missing value for %q", missing[0])
	}
	return path, nil
}
