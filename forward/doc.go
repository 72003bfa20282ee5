// Package forward runs the Jobs of a jobd whose spec.managedBy names a cluster in that cluster, and brings back what becomes of them. It is
// a client of two servers, and knows nothing of the daemon but its API.
//
// Decide says what is to be done next for one Job, by the Jobs here and there as they are: a pure function. What is made there (Copy),
// passed on later (Changes) and copied back (Statuses, Mirror) are such functions too; Forwarder watches both servers, asks Decide, and
// carries out one step at a time.
//
// What is there tells of a Job here only if it is the cluster in which the Job was made, or may have been, and if this machine has made it, not
// one of whose state this one has a copy: both are in the record. Who may write objects there decides by that about those objects, and no others.
//
// A Job is made there under its own name, which is the lock: no two can have it. Before it is made, and again once it is, a record is
// written into the Job here, so that whatever is interrupted, it is made once. One that was made and is there no more may have run, so it
// has failed, and is never made again.
package forward
