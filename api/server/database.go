package server

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/jobd/jobd/api/database"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// database serves the maintenance of the database as described in package api/database.
func (s *Server) database(w http.ResponseWriter, r *http.Request) {
	db := s.config.Store
	switch op := r.URL.Query().Get("op"); {
	case r.Method == http.MethodGet && op == "":
		tell(w, database.Description{File: db.Path(), Version: db.Version()})
	case r.Method == http.MethodGet && op == "backup":
		s.backup(w, r)
	case r.Method == http.MethodPost && op == "check":
		err := db.Check()
		var refused []string
		if err == nil {
			refused, err = storage.Check(r.Context(), db)
		}
		switch {
		case err == nil:
			tell(w, database.Findings{Refused: refused})
		case errors.Is(err, store.ErrCorrupt):
			http.Error(w, err.Error(), http.StatusConflict)
		default:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	case r.Method == http.MethodPost && op == "compact":
		before, after, err := db.Compact(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		tell(w, database.Sizes{Before: before, After: after})
	default:
		http.Error(w, "want GET, GET ?op=backup, POST ?op=check or POST ?op=compact", http.StatusBadRequest)
	}
}

// backup streams the copy. A failure in the middle ends the connection, so that the client does not mistake a part for
// the whole.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	n, err := s.config.Store.Backup(w)
	switch {
	case err == nil:
	case n == 0:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	default:
		s.config.Logger.Warn("cannot finish a backup of the database", "written", n, "error", err)
		panic(http.ErrAbortHandler)
	}
}

func tell(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a client that is gone need not know
}
