package server

import (
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/apiserver/pkg/server/statusz"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/metrics/prometheus/slis"
	baseversion "k8s.io/component-base/version"

	"github.com/jobd/jobd/api/scheme"
)

// servePaths serves what an API server has beside its groups: its index, version, health and metrics.
func (s *Server) servePaths() {
	s.paths = mux.NewPathRecorderMux("jobd")
	known := effectiveVersion{compatibility.NewEffectiveVersionFromString(baseversion.DefaultKubeBinaryVersion, "", ""), s.config.Version}
	routes.Version{Version: known.Info()}.Install(s.groups.container)
	routes.DefaultMetrics{}.Install(s.paths)
	slis.SLIMetrics{}.Install(s.paths)

	live, ready := s.checks(s.config.Live), s.checks(s.config.Ready)
	healthz.InstallPathHandler(withReasons{s.paths, "/healthz", s.config.Live}, "/healthz", live...)
	healthz.InstallPathHandler(withReasons{s.paths, "/livez", s.config.Live}, "/livez", live...)
	healthz.InstallPathHandler(withReasons{s.paths, "/readyz", s.config.Ready}, "/readyz",
		append(ready, healthz.NewShutdownHealthz(s.stopping.Done()))...)

	listed := listed{s}
	routes.Index{}.Install(listed, s.paths)
	s.paths.NotFoundHandler(routes.IndexLister{StatusCode: http.StatusNotFound, PathProvider: listed})
	statusz.Install(s.paths, "apiserver", statusz.NewRegistry(known, statusz.WithListedPaths(listed.ListedPaths())))
}

// listed lists the paths that are served.
type listed struct{ *Server }

func (l listed) ListedPaths() []string {
	return slices.Sorted(slices.Values(append(l.groups.paths(), l.paths.ListedPaths()...)))
}

// effectiveVersion is the version of the API with jobd's own build as its metadata.
type effectiveVersion struct {
	compatibility.MutableEffectiveVersion
	jobd string
}

func (v effectiveVersion) Info() *version.Info {
	info := v.MutableEffectiveVersion.Info()
	if v.jobd != "" && info != nil {
		info.GitVersion = scheme.KubernetesVersion(v.jobd)
	}
	return info
}
