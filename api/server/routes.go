package server

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/jobd/jobd/api/authorization"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/database"
	"github.com/jobd/jobd/api/diskuse"
	"github.com/jobd/jobd/api/images"
	"github.com/jobd/jobd/api/inspection"
	"github.com/jobd/jobd/api/listen"
	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// localRoutes adds what only the socket serves: images, the kubeconfig for the network, the maintenance of the
// database, what the daemon is doing, receivers of notices, and profiles.
func (s *Server) localRoutes(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", api)
	mux.Handle(images.Path, newImagesHandler(s.config.Images))
	mux.HandleFunc("GET "+kubeconfigPath, s.kubeconfig)
	mux.HandleFunc(database.Path, s.database)
	mux.HandleFunc("GET "+inspection.Path, s.inspect)
	mux.HandleFunc(notices.Path, s.receivers)
	mux.HandleFunc("GET "+diskuse.Path, s.diskUse)
	mux.HandleFunc(profilePath, pprof.Index)
	mux.HandleFunc(profilePath+"cmdline", pprof.Cmdline)
	mux.HandleFunc(profilePath+"profile", pprof.Profile)
	mux.HandleFunc(profilePath+"symbol", pprof.Symbol)
	mux.HandleFunc(profilePath+"trace", pprof.Trace)
	// The mux would clean paths and redirect; the API answers for its own paths as they come.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isImagePath(r.URL.Path) || isProfilePath(r.URL.Path) || r.URL.Path == kubeconfigPath ||
			slices.Contains([]string{database.Path, inspection.Path, notices.Path, diskuse.Path}, r.URL.Path) {
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

func isImagePath(path string) bool   { return path == images.Path }
func isProfilePath(path string) bool { return strings.HasPrefix(path, profilePath) }

// inspect answers as described in package inspection.
func (s *Server) inspect(w http.ResponseWriter, r *http.Request) {
	if s.config.Inspect == nil {
		http.NotFound(w, r)
		return
	}
	tell(w, s.config.Inspect(r.Context()))
}

// diskUse answers as described in package diskuse.
func (s *Server) diskUse(w http.ResponseWriter, r *http.Request) {
	if s.config.DiskUse == nil {
		http.NotFound(w, r)
		return
	}
	report, err := s.config.DiskUse(r.Context())
	if err != nil {
		refuse(w, err)
		return
	}
	tell(w, report)
}

// namespaceMissing warns of a namespace that does not exist, which is more often mistyped than created later.
func (s *Server) namespaceMissing(name string) (text string) {
	_ = s.config.Store.View(func(snapshot *store.Snapshot) error { // without a store nothing else works either
		if _, there := snapshot.Get(store.Key("namespaces", "", name)); name != "" && !there {
			text = fmt.Sprintf("there is no namespace %s yet: jobctl create namespace %[1]s", name)
		}
		return nil
	})
	return text
}

// kubeconfig answers with what a client needs to use the API over the network: an administrator, one that has only the
// role of the query, perhaps in only one namespace, or the user of the query in its groups.
func (s *Server) kubeconfig(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	to, err := listen.NewHolder(query.Get("user"), query["group"], query.Get("role"), query.Get("namespace"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}

	at := s.at.Load()
	if at == nil {
		http.Error(w, "jobd listens on no network address: start it with --listen 127.0.0.1:PORT", http.StatusNotFound)
		return
	}
	to.NamespaceUID, err = authorization.NamespaceUID(s.config.Store, to.Role.Namespace)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	data, err := s.config.Authority.Kubeconfig(*at, to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	root, err := s.asGoodAsRoot(to.Role)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	for _, text := range []string{s.namespaceMissing(to.Role.Namespace), root} {
		if header, err := utilnet.NewWarningHeader(299, "-", text); text != "" && err == nil {
			w.Header().Add("Warning", header)
		}
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(data)
}

// asGoodAsRoot returns a warning for an administrator that grants a role with which its holder can become root of the
// host; empty if that is not so, or obvious from the role.
func (s *Server) asGoodAsRoot(r roles.Role) (string, error) {
	if r.Name == core.RoleRead || r == (roles.Role{Name: core.RoleAdmin}) {
		return "", nil
	}
	var open []string
	look := func(ns *corev1.Namespace) {
		if !s.config.PodSecurity.Limits(ns) {
			open = append(open, ns.Name)
		}
	}
	if r.Namespace != "" {
		ns, err := s.podSecurity().Namespace(r.Namespace)
		if err != nil {
			return "", err
		}
		look(ns)
	} else if err := s.config.Store.View(func(snapshot *store.Snapshot) (err error) {
		snapshot.Range(store.Key("namespaces", "", ""), "", func(o store.Object) bool {
			ns := &corev1.Namespace{}
			if err = scheme.Decode(o.Value, ns); err == nil {
				look(ns)
			}
			return err == nil
		})
		return err
	}); err != nil {
		return "", err
	}
	if len(open) == 0 {
		return "", nil
	}
	return fmt.Sprintf("whoever has this kubeconfig can become root of this host, because privileged pods are allowed in "+
		"the namespace(s) %s: label them pod-security.kubernetes.io/enforce=baseline, or start jobd with --pod-security-enforce baseline",
		strings.Join(open, ", ")), nil
}
