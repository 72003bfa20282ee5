// Package openapi holds the OpenAPI models of the Go types that jobd serves. They are generated: after a new version of
// k8s.io/api, or to serve kinds of a further group (add its package to generate.sh), run
//
//	make generate
package openapi

//go:generate ./generate.sh
