package server

import (
	"net/http"
	"net/http/pprof"
	"strings"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/jobd/jobd/api/database"
	wire "github.com/jobd/jobd/api/images"
)

// localRoutes adds what only the socket serves: images, the kubeconfig for the network, the maintenance of the
// database, and profiles.
func (s *Server) localRoutes(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", api)
	mux.Handle(wire.Path, newImagesHandler(s.config.Images))
	mux.HandleFunc("GET "+kubeconfigPath, s.kubeconfig)
	mux.HandleFunc(database.Path, s.database)
	mux.HandleFunc(profilePath, pprof.Index)
	mux.HandleFunc(profilePath+"cmdline", pprof.Cmdline)
	mux.HandleFunc(profilePath+"profile", pprof.Profile)
	mux.HandleFunc(profilePath+"symbol", pprof.Symbol)
	mux.HandleFunc(profilePath+"trace", pprof.Trace)
	// The mux would clean paths and redirect; the API answers for its own paths as they come.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isImagePath(r.URL.Path) || isProfilePath(r.URL.Path) || r.URL.Path == kubeconfigPath ||
			r.URL.Path == database.Path {
			mux.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

const (
	kubeconfigPath = "/jobd/v1/kubeconfig"
	profilePath    = "/debug/pprof/"
)

func isImagePath(path string) bool   { return path == wire.Path }
func isProfilePath(path string) bool { return strings.HasPrefix(path, profilePath) }

// kubeconfig answers with what a client needs to use the API over the network: an administrator, one that has only the
// role of the query, perhaps in only one namespace, or the user of the query in its groups.
func (s *Server) kubeconfig(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	to, err := newHolder(query.Get("user"), query["group"], query.Get("role"), query.Get("namespace"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	at := s.at.Load()
	if at == nil {
		http.Error(w, "jobd listens on no network address: start it with --listen 127.0.0.1:PORT", http.StatusNotFound)
		return
	}
	data, err := s.config.Authority.kubeconfig(*at, to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if text, err := s.asGoodAsRoot(to.role); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	} else if header, err := utilnet.NewWarningHeader(299, "-", text); text != "" && err == nil {
		w.Header().Set("Warning", header)
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(data)
}
