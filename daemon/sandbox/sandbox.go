// Package sandbox prepares the machine for the containers of a pod and cleans up after them. Each step is a file, in
// which set-up stands beside tear-down. The package also makes the OCI specs from what the steps have set up.
//
// Stored pods come in. The steps own what is on the machine for a pod: its volumes, network, cgroup, devices and shared
// processes. Workers run the steps in order and undo them in reverse order; each step may be repeated.
package sandbox

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// held returns the pods for which a step has set something up, so that what an earlier run has left is found.
func held(list func() ([]string, error)) func(context.Context) ([]types.UID, error) {
	return func(context.Context) ([]types.UID, error) {
		names, err := list()
		uids := make([]types.UID, len(names))
		for i, name := range names {
			uids[i] = types.UID(name)
		}
		return uids, err
	}
}
