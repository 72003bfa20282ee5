// Package picture is the format in which jobd draws a Job, and a JobSet as a graph of its groups (SetPicture).
//
// GET .../jobs/NAME/picture, which only jobd has, answers with a Picture as JSON. It has a cell for each index of
// the Job, or for each pod of a Job without indexes, and what people ask next: which pods ran when, how long they took,
// what they used, and how those that failed did.
//
// Columns of cells are strings, see Runs, so that a Job of 100,000 indexes is drawn from less than 200 kB. Why a Job waits
// is not part of a Picture: GET .../jobs/NAME/why says that.
//
// # Whole pictures and changes
//
// An answer has a Cursor. A request with that cursor is answered with what has changed since: Picture.Delta is true then,
// parts that are nil are as they were, and Changed lists the cells that look different. An answer to a request with a cursor
// may always be a whole picture (Delta is false): the daemon was restarted, too much has changed, or the Job has another
// number of cells. So a reader replaces everything whenever Delta is false. A cursor is opaque and belongs to one Job.
//
// # Promises
//
// Within APIVersion fields may be added, and none changes its meaning: readers ignore what they do not know. A cell that
// stands for several indexes (Cells.Per) shows the worst of their states.
//
// This package has the types and the coding of columns, for the daemon and for its clients. It reads and writes nothing,
// keeps no state, and may be used from any goroutine. Package daemon/picture draws.
package picture
