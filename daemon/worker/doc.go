// Package worker acts for pods: it launches and stops containers, runs their probes and hooks, and removes what a pod
// had on the host.
//
// In come the actions that package pod has decided on, after they were committed; out go observations of what came of
// them, and of what the runtime says. The workers touch the runtime, the images and whatever the set-up steps touch,
// never the store: a result counts once the loop has stored it.
package worker
