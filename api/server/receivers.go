package server

import (
	"context"
	"net/http"

	"github.com/jobd/jobd/api/annotations"
	"github.com/jobd/jobd/api/notices"
)

// Receivers are whom users may let be told of their Jobs.
type Receivers interface {
	// Known reports whether objects of a namespace may name a receiver.
	Known(receiver, namespace string) bool
	List() (notices.List, error)
	// Test delivers a notice, and returns why that has failed.
	Test(ctx context.Context, receiver string) error
}

// receivers answers as described in package notices.
func (s *Server) receivers(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("test")
	switch {
	case s.config.Receivers == nil:
		http.NotFound(w, r)
	case r.Method == http.MethodGet && name == "":
		list, err := s.config.Receivers.List()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		tell(w, list)
	case r.Method == http.MethodPost && name != "":
		if !s.config.Receivers.Known(name, "") {
			http.Error(w, "the settings of jobd have no receiver "+name+": jobctl notify lists those that it has", http.StatusNotFound)
			return
		}
		if err := s.config.Receivers.Test(r.Context(), name); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		http.Error(w, "want GET or POST ?test=NAME", http.StatusBadRequest)
	}
}

// knownReceivers is what receivers that objects name are held against; nil: nothing.
func (s *Server) knownReceivers() annotations.Receivers {
	if s.config.Receivers == nil {
		return nil
	}
	return s.config.Receivers.Known
}
