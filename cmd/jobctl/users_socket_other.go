//go:build !linux

package main

import "k8s.io/cli-runtime/pkg/genericclioptions"

// standsIn makes a namespace the one that commands work in unless they name another, as by the flag.
func standsIn(flags *genericclioptions.ConfigFlags, namespace string) error {
	*flags.Namespace = namespace
	return nil
}
