// Package pod does for a pod what a kubelet does, in two halves.
//
// The pure half folds what was observed of a pod into its stored status (Apply) and tells from the status what the pod
// needs now (Next). It does no I/O and is passed the time, so that it can run inside a store transaction and be tested
// in virtual time. All state is in the stored pod: after a restart of the daemon Next asks for the same things again.
//
// The acting half, Workers, takes the actions that Next asked for, after they were committed, and reports what came of
// them.
package pod
