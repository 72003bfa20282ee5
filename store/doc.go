// Package store keeps objects as bytes with a little metadata in one file, and every change of them as a log that readers
// follow. It knows nothing of what the bytes mean, and touches only the file and those beside it whose names begin with its
// name.
//
// A value is written once, under the version of the change that made it. The index from keys to versions makes it an object;
// the order of versions makes it a log entry; and what a change has superseded stays until the history is cut, so the
// previous state of every change that a reader can still see is there as well.
//
// # What is ordered
//
// There is one writer. Transactions (Update) run one after the other, and each sees what all before it wrote. Every Put and
// every Delete is a change with a version of its own; versions grow by one, from FirstVersion on, and a transaction that
// fails uses up none. So a version is a point in the life of all objects together, and the changes up to it are all there is
// to know about that point. Cursors and Snapshot.Changes show changes in the order of their versions, without a gap: when
// some of them have been cut, the reader is told (ErrCompacted) instead.
//
// # What is durable
//
// When Update returns nil, what its function wrote is on the disk and survives a power failure (unless Options.NoSync). When
// it returns an error or the function panics, nothing of it is. Transactions that wait while another is being committed
// share the next commit, so that many writers cost one fsync; they are durable together. View, Version and cursors show only
// what is durable. A commit for which the disk has no room writes nothing (ErrFull), and the store goes on; Options.Reserve
// holds space back for that case.
//
// # The follower
//
// One reader, the control loop of the daemon, follows all changes and writes what follows from them. Its transactions (Follow)
// come next, however many others wait, but not twice before one of those. So what is written between two of them is bounded by
// what one commit holds (and by what others write while the follower does not ask for its turn), and the history is kept for it
// beyond its usual size. A follower that falls behind nevertheless is told so, like every reader (ErrCompacted).
//
// The follower may also write what follows from a change in the same commit as the change. It receives an Invitation when a
// group of transactions is about to be committed and calls Update or Decline at once, since every writer waits for it. If
// nobody receives at that moment the group is committed without it, and Missed tells the follower later. If the function of an
// invitation fails, the group is committed all the same, without what that function wrote.
//
// # What is found without reading all
//
// Objects are found by their keys, by their owners and by when they expire, each by an index in the file. Past.Range finds those whose
// values have some words, if Options.Words says what a value has. What it knows of them is in memory, and grows as readers ask: of
// each stretch of keys, which words there are. Nobody who writes pays for it before somebody has looked for words under these keys.
//
// # What may block
//
// Update blocks until its turn comes, while its function runs, and until the commit is on the disk. Its context bounds only
// the wait for the turn. The function runs on the goroutine of the caller, while all other writers wait: it should be short,
// and must not begin another transaction, not even View. View blocks only while a compaction exchanges the files; its
// function may take its time, but the space that writers free is not reused meanwhile. Cursor.Next blocks until there is a
// change under its prefix. Check makes writers wait; Backup does not. Close waits for the transactions under way. Every call
// after it, and every cursor that waits, ends with ErrClosed.
//
// # Who owns what
//
// A Store may be used by any number of goroutines; a Cursor by one; a Tx or a Snapshot only inside the function that was
// given it, on the goroutine of that function. The bytes that Get and Range return belong to the store and are valid until
// that function returns: copy what is to live longer. The bytes that are Put must not be changed before the transaction has
// ended. The changes that Cursor.Next returns are copies, and belong to the caller.
//
// One process has the file at a time (LockedError). A file of an older format is migrated by Open, one of a newer format is
// refused (FormatError). What is read is checked when it is read, so ErrCorrupt may come from any call; Check reads
// everything.
package store
