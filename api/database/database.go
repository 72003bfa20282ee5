// Package database is how `jobd db` asks a running daemon about its database. It is jobd's own, no API of Kubernetes,
// and served on the socket only:
//
//	GET  /jobd/v1/database             a Description
//	GET  /jobd/v1/database?op=backup   a copy of the database, as it was when the request came
//	POST /jobd/v1/database?op=check    Findings when it is sound; else, with the status 409, what is wrong
//	POST /jobd/v1/database?op=compact  Sizes
//
// Errors are answered as plain text.
package database

// Path is where the database is served.
const Path = "/jobd/v1/database"

// Description identifies a database.
type Description struct {
	// File is its path on the host.
	File string `json:"file"`
	// Version is that of the last change.
	Version uint64 `json:"version"`
}

// Findings of a check of a database that is sound.
type Findings struct {
	// Refused are objects that could not be created as they are, each with the reason.
	Refused []string `json:"refused,omitempty"`
}

// Sizes of the file, in bytes, around a compaction.
type Sizes struct {
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}
