package server

import (
	"fmt"
	"net/http"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/emicklei/go-restful/v3"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/jobd/jobd/api/flowcontrol"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/tokens"
)

// The limits of a kube-apiserver: the most bytes in the body of a write, and the least time that a watch lasts.
const (
	maxBodyBytes    = 3 << 20
	minWatchTimeout = 30 * time.Minute
)

// groups serves kinds below /api and /apis with the handlers of k8s.io/apiserver, and the discovery of them. It stands in for
// that library's generic server, with which webhooks, admission policies and informers of all kinds are compiled.
type groups struct {
	container *restful.Container
	codecs    runtime.NegotiatedSerializer
	order     []string // groups
	versions  map[string][]schema.GroupVersion
	served    map[schema.GroupVersion]map[string]rest.Storage
	encoding  chan struct{} // turns of watches
}

func newGroups() *groups {
	g := &groups{
		container: restful.NewContainer(),
		// A list is sent object by object.
		codecs: guard(scheme.WithYAML(serializer.NewCodecFactory(scheme.Scheme, serializer.WithStreamingCollectionEncodingToJSON(),
			serializer.WithStreamingCollectionEncodingToProtobuf()))),
		encoding: make(chan struct{}, goruntime.GOMAXPROCS(0)),
		versions: map[string][]schema.GroupVersion{},
		served:   map[schema.GroupVersion]map[string]rest.Storage{},
	}
	g.container.Router(restful.CurlyRouter{}) // which takes what follows pods/NAME/proxy/
	g.container.ServiceErrorHandler(func(e restful.ServiceError, r *restful.Request, w *restful.Response) {
		err := apierrors.NewGenericServerResponse(e.Code, "", schema.GroupResource{}, "", e.Message, 0, false)
		responsewriters.ErrorNegotiated(err, scheme.Answers, schema.GroupVersion{}, w, r.Request)
	})
	return g
}

// add serves a resource, or a subresource, from the next install on.
func (g *groups) add(gv schema.GroupVersion, name string, storage rest.Storage) {
	if g.served[gv] == nil {
		g.served[gv] = map[string]rest.Storage{}
		if g.versions[gv.Group] == nil {
			g.order = append(g.order, gv.Group)
		}
		g.versions[gv.Group] = append(g.versions[gv.Group], gv)
	}
	g.served[gv][name] = storage
}

// handles reports whether a path belongs to a group, to discovery, or to the version and the issuer of tokens, which are in
// the container too.
func (g *groups) handles(path string) bool {
	first, below, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "api", "version":
		return true
	case ".well-known", "openid":
		path = strings.TrimSuffix(path, "/")
		return path == tokens.ConfigurationPath || path == tokens.KeysPath
	case "apis":
		group, _, _ := strings.Cut(below, "/")
		return below == "" || group != "" && g.versions[group] != nil // that of /api has no name
	}
	return false
}

// install begins to serve what has been added.
func (g *groups) install(types managedfields.TypeConverter, admit admission.Interface, allowed authorizer.UnconditionalAuthorizer) error {
	names := discovery.NewRootAPIsHandler(noAddresses{}, scheme.Codecs)
	core, named := aggregated.NewResourceManager("api"), aggregated.NewResourceManager("apis")
	equivalent := runtime.NewEquivalentResourceRegistry()
	for _, group := range g.order {
		all := map[string][]string{}
		for _, gv := range g.versions[group] {
			for name := range g.served[gv] {
				all[name] = append(all[name], gv.String())
			}
		}
		discovered := metav1.APIGroup{Name: group}
		for _, gv := range scheme.Scheme.PrioritizedVersionsForGroup(group) {
			if len(g.served[gv]) == 0 {
				continue
			}
			version := &endpoints.APIGroupVersion{
				Storage: g.served[gv], Root: rootOf(gv), GroupVersion: gv, AllServedVersionsByResource: all,
				OptionsExternalVersion: &schema.GroupVersion{Version: "v1"},
				Serializer:             sparingCodecs{g.codecsOf(gv), g.encoding}, ParameterCodec: scheme.ParameterCodec,
				Typer: scheme.Scheme, Creater: flowcontrol.DeepCreater{
					ObjectCreater: scheme.Scheme,
				}, Convertor: scheme.Scheme, ConvertabilityChecker: scheme.Scheme,
				Defaulter: scheme.Scheme, Namer: runtime.Namer(meta.NewAccessor()),
				UnsafeConvertor: runtime.UnsafeObjectConvertor(scheme.Scheme), TypeConverter: types,
				EquivalentResourceRegistry: equivalent, Authorizer: allowed, Admit: admit,
				MinRequestTimeout: minWatchTimeout, MaxRequestBodyBytes: maxBodyBytes,
			}
			resources, _, err := version.InstallREST(g.container)
			if err != nil {
				return fmt.Errorf("%s: %w", gv, err)
			}
			aggregate := named
			if group == "" {
				aggregate = core
			}
			aggregate.AddGroupVersion(group, apidiscoveryv2.APIVersionDiscovery{
				Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent, Version: gv.Version, Resources: resources,
			})
			discovered.Versions = append(discovered.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
		}
		if group != "" {
			discovered.PreferredVersion = discovered.Versions[0]
			names.AddGroup(discovered)
			g.container.Add(discovery.NewAPIGroupHandler(scheme.Codecs, discovered).WebService())
		}
	}
	legacy := discovery.NewLegacyRootAPIHandler(noAddresses{}, scheme.Codecs, "/api")
	g.container.Add(aggregated.WrapAggregatedDiscoveryToHandler(legacy, core, core).GenerateWebService("/api", metav1.APIVersions{}))
	g.container.Add(aggregated.WrapAggregatedDiscoveryToHandler(names, named, nil).GenerateWebService("/apis", metav1.APIGroupList{}))
	return nil
}

// learnTypes fills in what server-side apply knows of the fields of all kinds.
func (g *groups) learnTypes(known *fieldTypes, models *common.OpenAPIV3Config) error {
	var names []string
	samples := map[schema.GroupVersionKind]runtime.Object{}
	for gv, served := range g.served {
		for _, storage := range served {
			kind, err := endpoints.GetResourceKind(gv, storage, scheme.Scheme)
			if err != nil {
				return err
			}
			sample, err := scheme.Scheme.New(kind)
			if err != nil {
				return err
			}
			names = append(names, util.GetCanonicalTypeName(sample))
			samples[kind] = sample
		}
	}
	definitions, err := builder3.BuildOpenAPIDefinitionsForResources(models, names...)
	if err != nil {
		return err
	}
	converter, err := managedfields.NewTypeConverter(definitions, false)
	if err != nil {
		return err
	}
	known.TypeConverter, known.empty = converter, map[schema.GroupVersionKind]*typed.TypedValue{}
	for kind, sample := range samples {
		known.add(kind, sample)
	}
	return nil
}

// paths returns what is served, as the index of the API lists it.
func (g *groups) paths() (all []string) {
	for _, service := range g.container.RegisteredWebServices() {
		all = append(all, service.RootPath())
	}
	return all
}

func (g *groups) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.container.Dispatch(w, r) }

// rootOf returns the first part of the paths of a group.
func rootOf(gv schema.GroupVersion) string {
	if gv.Group == "" {
		return "/api"
	}
	return "/apis"
}
