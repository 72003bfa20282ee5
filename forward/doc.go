// Package forward runs the Jobs of a jobd whose spec.managedBy names a cluster in that cluster, and brings back what becomes of them. It is
// a client of two servers, and knows nothing of the daemon but its API.
//
// Decide says what is to be done next for one Job, by the Jobs here and there as they are: a pure function. What is made there (Copy),
// passed on later (Changes) and copied back (Statuses, Mirror) are such functions too; Forwarder watches both servers, asks Decide, and
// carries out one step at a time.
//
// What is seen there counts for a Job here only if two things hold, which the record keeps: it is the cluster in which the Job
// was made, or may have been; and this machine made it, not another one whose state was copied to this one. So whoever may
// write objects there decides about the Jobs that those objects stand for, and about no others.
//
// A Job is made there under its own name. The name is the lock: no two Jobs can have it. A record is written into the Job here
// before that one is made, and again afterwards, so that it is made once, whatever is interrupted. If it was made and is gone
// there, it may have run: the Job here fails, and is never made again.
package forward
