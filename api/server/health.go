package server

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"

	"github.com/jobd/jobd/api/roles"
)

// checks returns the checks that everything has, and those that are named.
func (s *Server) checks(named map[string]func() error) []healthz.HealthChecker {
	all := []healthz.HealthChecker{healthz.PingHealthz, healthz.LogHealthz}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, healthz.NamedCheck(name, func(*http.Request) error { return named[name]() }))
	}
	return all
}

// withReasons tells administrators why a check at a path has failed. The library withholds it from everybody, since
// anybody may ask.
type withReasons struct {
	*mux.PathRecorderMux
	path  string
	named map[string]func() error
}

// Handle implements the interface of the library.
func (m withReasons) Handle(path string, handler http.Handler) {
	if path != m.path {
		m.PathRecorderMux.Handle(path, handler)
		return
	}
	m.PathRecorderMux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, ok := request.UserFrom(r.Context()); ok && slices.Contains(who.GetGroups(), roles.AdminGroup) {
			w = &reasonWriter{w, m.named}
		}
		handler.ServeHTTP(w, r)
	}))
}

// reasonWriter writes an answer of the library with the reasons.
type reasonWriter struct {
	http.ResponseWriter
	named map[string]func() error
}

// Write implements http.ResponseWriter.
func (w *reasonWriter) Write(answer []byte) (int, error) {
	told := answer
	for name, check := range w.named {
		failed := "[-]" + name + " failed: "
		if err := check(); err != nil {
			told = bytes.Replace(told, []byte(failed+"reason withheld"), fmt.Appendf(nil, "%s%v", failed, err), 1)
		}
	}
	if _, err := w.ResponseWriter.Write(told); err != nil {
		return 0, err
	}
	return len(answer), nil
}
