#!/usr/bin/env bash
# Writes the models into a directory, or to where they belong.
set -euo pipefail
output=$(realpath "${1:-$(dirname "$0")}")
cd "$(dirname "$0")/generator"
export CGO_ENABLED=0 # the generator is built once, whoever runs this

packages=(
  k8s.io/api/authentication/v1
  k8s.io/api/authorization/v1
  k8s.io/api/batch/v1
  k8s.io/api/coordination/v1
  k8s.io/api/core/v1
  k8s.io/api/discovery/v1
  k8s.io/api/events/v1
  k8s.io/api/networking/v1
  k8s.io/api/node/v1
  k8s.io/api/policy/v1
  k8s.io/api/rbac/v1
  k8s.io/api/scheduling/v1
  k8s.io/api/scheduling/v1alpha3
  k8s.io/api/scheduling/v1beta1
  k8s.io/api/storage/v1
  k8s.io/apimachinery/pkg/api/resource
  k8s.io/apimachinery/pkg/apis/meta/v1
  k8s.io/apimachinery/pkg/runtime
  k8s.io/apimachinery/pkg/util/intstr
  k8s.io/apimachinery/pkg/version
  k8s.io/metrics/pkg/apis/metrics/v1beta1
  sigs.k8s.io/jobset/api/jobset/v1alpha2
)
exec go tool openapi-gen --go-header-file /dev/null --report-filename /dev/null \
  --output-dir "$output" --output-pkg github.com/jobd/jobd/api/openapi --output-file zz_generated.openapi.go \
  "${packages[@]}"
