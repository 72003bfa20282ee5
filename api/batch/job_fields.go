package batch

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
)

// jobFields are those that a field selector of Jobs may name, beside metadata.name and metadata.namespace.
func jobFields() map[string]func(*batchv1.Job) string {
	return map[string]func(*batchv1.Job) string{
		"status.successful": func(j *batchv1.Job) string { return strconv.Itoa(int(j.Status.Succeeded)) },
	}
}
