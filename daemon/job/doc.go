// Package job decides what a batch/v1 Job needs next.
//
// In come changes of the Job and its pods, which the control loop folds into a Record, and the time. Out goes a Decision:
// pods to be created and deleted, the next status, events, and when to decide again. The loop carries it out in one
// transaction. Nothing here does I/O; only the methods that fold something in change a Record.
//
// # How it is used
//
//	r := job.NewRecord(stored, memory) // at start, or when the Job is created
//	r.SetPod(job.Summarize(p))         // for each of its pods, and whenever one changes
//	r.SetJob(changed, now)             // whenever the Job changes
//	r.DropPod(uid)                     // when the object of a pod is gone
//
//	d := job.Decide(r, now, settings)  // what is to be done
//	                                   // carry it out in one transaction, and fold what was written into r in turn
//	                                   // then decide again at once if d.More, and at d.Wake at the latest
//
// What a decision wrote is folded in like what anybody else writes: the Record learns nothing from the Decision itself. When
// the transaction fails, nothing has to be undone, since Decide has changed nothing.
//
// # What is ordered
//
// The parts of a Decision are carried out in the order of its fields. Pods are created in the order of Create; at the first
// that is refused CreationRefused is called, the rest of the Decision is dropped, and another one is asked for. Status holds
// up to two revisions, which are written one after the other, so that watchers see the interim condition before the final
// one. When several rules would end a Job, the order in judge is the one that counts: what was decided before, then failure,
// then success.
//
// # What is durable
//
// The Job, its pods, and the Memory of the last Decision that had one, which is stored with the Job: what the back-off has
// to know of pods that are gone. A Record that is made of these decides as the one before a restart did, but for the delay
// after refused creations, which begins anew. Every pod of a Job has a finalizer until it was counted, and a Decision
// removes it in the same transaction that counts the pod (Release): so a pod is counted once, however often the daemon is
// killed.
//
// # Costs, and who may call
//
// Folding in a change and deciding take time for what has changed, not for the size of the Job, but for a few cases that
// count everything anew (recount). A Decision is bounded by Settings.Batch; Decision.More says that there is more. A Record
// keeps less than the objects that it was made of; it shares parts of the Job, which must not be changed in place. It must
// not be used by several goroutines at a time, and nothing in this package blocks.
//
// What is decided for what is shown by the cases in testdata/cases.
package job
