// Package generator makes jobd's OpenAPI models from the Go types it serves: go generate ./api/openapi.
package generator

// The sources that openapi-gen reads.
import (
	_ "k8s.io/api/batch/v1"
	_ "k8s.io/apimachinery/pkg/version"
	_ "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	_ "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)
