// Package shard is the daemon's side of the shards, which keep containers alive without it. A shard is a small process
// (cmd/jobd-shim) that holds several containers: it starts each with one run of crun or runc, writes its log, reaps it and
// keeps its exit until that is acknowledged. It outlives the daemon, which speaks to it over a unix socket and finds
// everything again by List.
//
// Shard connects again when its connection breaks, and starts the process again when it dies; Client is one connection. What
// the process does is in package server, what goes over the socket in package protocol. On the host this package makes the
// directory of a shard, with the file that the process writes its own log to, and puts the process into a control group.
//
// # What is durable
//
// The directory of a shard has a record of each container that was started, and of its end, until Delete. It may be on a
// volatile file system: it survives the daemon and the shard, not the host. An exit is acknowledged by Delete, and by nothing
// else: until then it is in List, and is reported again after each new connection. When a shard dies, its next process takes
// the directory over. Containers that are still running go on if the kernel can tell that process how they end; otherwise they
// are killed and reported as lost.
//
// # What is ordered, and what comes twice
//
// The exits of one connection come in the order in which the shard has seen them. After a new connection every container
// that has ended and is not deleted is reported, beside the exits that happen just then: so OnExit may be called twice for a
// container, and by two goroutines at a time, and knows by the ID what it has seen. An exit may overtake the answer to the
// Start of its container. Calls of one Client are answered in any order.
//
// # What may be repeated
//
// Start, Delete, List and CloseStdin are idempotent, and a Shard repeats them by itself when the connection breaks under
// them. So a Start whose answer was lost finds the container that it has started. Signal, CallOff, Exec and Attach are not
// repeated once they may have reached the shard, and fail with errdefs.ErrUnavailable instead.
//
// # What may block
//
// Methods of a Shard block while it connects, which they do for as long as their context allows. OnExit must not block: it
// holds up the answers of its connection. A Start that is given up by its context goes on in the shard; CallOff ends it.
// Exec and Attach return a Process with a connection of its own, which lives until Close or until the end of the context.
//
// # Who may call what
//
// The methods of a Shard and of a Client may be called from any goroutine. One process at a time holds a directory: a second
// shard refuses to begin there. A shard may be older than the daemon: Can says what it is able to do, and what it cannot is
// refused with errdefs.ErrNotImplemented. Shutdown ends a shard that holds no container, and then nobody starts it again;
// Close leaves it running.
package shard
