// Package jobset decides what a JobSet needs next.
//
// In come the JobSet, changes of its Jobs, which the control loop folds into a Record, and the time. Out goes a Decision: Jobs to be
// created, deleted, suspended and resumed, the status, events, and when to decide again. The loop carries it out in one transaction.
// Nothing here does I/O.
//
// What is decided, and in which order, is what the controller of sigs.k8s.io/jobset 0.12.0 does with its gates closed: a Job is of the
// present attempt if its label restart-attempt is status.restarts. What was restarted is therefore told by what is stored alone, and a
// daemon that is killed in the middle of a restart goes on with it.
//
// A Record keeps its counts up to date as Jobs change. So the time for a decision grows with the groups of a JobSet and with
// what is decided, but not with all its Jobs.
package jobset
