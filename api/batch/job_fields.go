package batch

import (
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
)

// jobFields returns the fields that field selectors of Jobs may name, in addition to metadata.name and
// metadata.namespace.
func jobFields() map[string]func(*batchv1.Job) string {
	return map[string]func(*batchv1.Job) string{
		"status.successful": func(j *batchv1.Job) string { return strconv.Itoa(int(j.Status.Succeeded)) },
	}
}
