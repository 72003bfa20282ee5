// Package sandbox prepares a machine for the containers of a pod and clears up behind them: a file for each step, in
// which set-up stands beside tear-down, and the OCI specs that are made of what the steps have set up.
//
// Pods come in, as the store has them. The steps own what lies on the machine for a pod: its volumes, network, cgroup,
// devices and shared processes. Workers take the steps in order and undo them in reverse; each can be taken again.
package sandbox

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
)

// held returns the pods that something is set up for, so that what an older run has left is found.
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
