package simulated

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/runtime"
)

// Annotations of a pod that say how its containers end.
const (
	// Duration is how long each container runs: "0s" (the default), "1m30s".
	Duration = "jobd.dev/simulate-duration"
	// ExitCode is what each container exits with: "0" (the default); "1,1,0" start by start of a container in its
	// pod, the last one for all further ones; "3:1,5:42" by the pod's completion index, 0 for the others.
	ExitCode = "jobd.dev/simulate-exit-code"
)

// startErrorCode is the exit code of a container that could not be started.
const startErrorCode = 128

// plan holds how a container will end.
type plan struct {
	duration time.Duration
	exitCode int
}

// planOf reads the annotations in a container's spec.
func planOf(c runtime.Container) (plan, error) {
	var annotations map[string]string
	if c.Spec != nil {
		annotations = c.Spec.Annotations
	}
	var p plan
	if value, ok := annotations[Duration]; ok {
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return p, fmt.Errorf("annotation %s: %q is not a duration such as 1.5s or 2m", Duration, value)
		}
		p.duration = d
	}
	value, ok := annotations[ExitCode]
	if !ok {
		return p, nil
	}
	code, err := exitCode(value, c.Attempt, annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil {
		return p, fmt.Errorf("annotation %s: %w", ExitCode, err)
	}
	p.exitCode = code
	return p, nil
}

func exitCode(value string, attempt int, index string) (int, error) {
	entries := strings.Split(value, ",")
	byIndex := strings.Contains(value, ":")
	result := 0
	for i, entry := range entries {
		entry = strings.TrimSpace(entry)
		of, text, has := strings.Cut(entry, ":")
		if !has {
			of, text = "", entry
		}
		code, err := strconv.Atoi(text)
		if err != nil || code < 0 || code > 255 {
			return 0, fmt.Errorf("%q in %q is not an exit code from 0 to 255", text, value)
		}
		if has != byIndex {
			return 0, fmt.Errorf("%q mixes codes with and without an index", value)
		}
		if byIndex {
			if n, err := strconv.Atoi(of); err != nil || n < 0 {
				return 0, fmt.Errorf("%q in %q is not a completion index", of, value)
			}
			if of == index {
				result = code
			}
		} else if i <= attempt {
			result = code
		}
	}
	return result, nil
}
