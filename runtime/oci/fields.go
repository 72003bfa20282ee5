package oci

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// FileContent returns the content of a file of a downwardAPI volume: a field of the pod, all its labels or annotations,
// or a resource of one of its containers.
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

// lines returns lines of the form KEY="VALUE", sorted by key.
func lines(values map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		out = append(out, fmt.Sprintf("%s=%q", key, values[key]))
	}
	return strings.Join(out, "\n")
}

// SubPaths expands the subPathExprs of one container.
type SubPaths struct{ environment *containerEnv }

// NewSubPaths computes the container's own variables, to which $(VAR) refers.
func NewSubPaths(in Input) (SubPaths, error) {
	environment, err := environment(in)
	return SubPaths{environment}, err
}

// Expand replaces $(VAR) in a subPathExpr. Each variable must exist.
func (p SubPaths) Expand(path string) (string, error) {
	missing := ""
	eachPart(path, func(name string) (string, bool) {
		value, ok := p.environment.lookup(name)
		if !ok && missing == "" {
			missing = strconv.Quote(name)
		}
		return value, ok
	}, func(string) {})
	if missing != "" {
		return "", fmt.Errorf("missing value for %s", missing)
	}
	return p.environment.expand(path)
}
