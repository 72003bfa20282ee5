// Package openapi holds the OpenAPI models of the Go types that jobd serves. They are generated: after a new
// version of k8s.io/api, or to serve kinds of a further group (add its package below), run
//
//	go generate ./api/openapi
package openapi

//go:generate go tool -C generator openapi-gen --go-header-file /dev/null --report-filename /dev/null --output-dir .. --output-pkg github.com/jobd/jobd/api/openapi --output-file zz_generated.openapi.go k8s.io/api/authentication/v1 k8s.io/api/authorization/v1 k8s.io/api/batch/v1 k8s.io/api/coordination/v1 k8s.io/api/core/v1 k8s.io/api/discovery/v1 k8s.io/api/events/v1 k8s.io/api/policy/v1 k8s.io/api/scheduling/v1 k8s.io/api/scheduling/v1alpha3 k8s.io/api/scheduling/v1beta1 k8s.io/apimachinery/pkg/api/resource k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/util/intstr k8s.io/apimachinery/pkg/version
