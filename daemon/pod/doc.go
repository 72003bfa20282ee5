// Package pod decides what a pod needs, as a kubelet does.
//
// In come the stored pod, what was observed of it (duty.Observation) and the time. Apply folds the observations into the
// pod's status, Next returns what the pod needs now (duty.Action), and Recover finds out what happened to its containers
// while the daemon was down.
//
// Nothing here does I/O, so that it can run inside a store transaction and be tested in virtual time. Apply writes only
// the status it was given, and core.PausedForAnnotation. All state is in the stored pod: after a restart of the daemon Next asks for the same again.
// Package worker takes the actions. Which resources a pod has while it is resized package allotment tells.
package pod
