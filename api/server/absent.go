package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/absent"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// nothing serves a kind that jobd does not have, so that clients which list it find no objects.
type nothing struct {
	rest.TableConvertor
	absent.Kind
	store *store.Store
}

var (
	_ rest.Getter               = nothing{}
	_ rest.Lister               = nothing{}
	_ rest.Watcher              = nothing{}
	_ rest.Scoper               = nothing{}
	_ rest.SingularNameProvider = nothing{}
	_ rest.ShortNamesProvider   = nothing{}
	_ rest.CategoriesProvider   = nothing{}
)

func newNothing(k absent.Kind, s *store.Store) nothing {
	n := nothing{Kind: k, store: s}
	n.TableConvertor = rest.NewDefaultTableConvertor(n.groupResource())
	return n
}

func (n nothing) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: n.Group, Resource: n.Resource()}
}

func (n nothing) New() runtime.Object     { return n.Kind.New() }
func (n nothing) NewList() runtime.Object { return n.Kind.NewList() }
func (n nothing) Destroy()                {}
func (n nothing) NamespaceScoped() bool   { return n.Namespaced }
func (n nothing) GetSingularName() string { return strings.ToLower(n.Kind.Kind) }
func (n nothing) ShortNames() []string    { return n.Kind.ShortNames }
func (n nothing) Categories() []string    { return n.Kind.Categories }

func (n nothing) Get(_ context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	return nil, apierrors.NewNotFound(n.groupResource(), name)
}

func (n nothing) List(context.Context, *metainternalversion.ListOptions) (runtime.Object, error) {
	list := n.NewList()
	if err := meta.SetList(list, []runtime.Object{}); err != nil {
		return nil, err
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return nil, err
	}
	m.SetResourceVersion(n.version())
	return list, nil
}

// Watch sends no events until the client ends it, except a bookmark at the beginning if the client asks for one.
func (n nothing) Watch(ctx context.Context, options *metainternalversion.ListOptions) (watch.Interface, error) {
	utilflowcontrol.WatchInitialized(ctx)
	events := make(chan watch.Event, 1)
	if options != nil && ptr.Deref(options.SendInitialEvents, false) {
		obj := n.New()
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		m.SetResourceVersion(n.version())
		m.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		events <- watch.Event{Type: watch.Bookmark, Object: obj}
	}
	return watch.NewProxyWatcher(events), nil
}

func (n nothing) version() string { return strconv.FormatUint(n.store.Version(), 10) }

// refuseAbsent refuses writes of objects of an absent kind, which has no endpoint for them.
func refuseAbsent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, ok := request.RequestInfoFrom(r.Context())
		if !ok || !info.IsResourceRequest || !slices.Contains([]string{"create", "update", "patch", "delete"}, info.Verb) {
			next.ServeHTTP(w, r)
			return
		}
		k, ok := absent.Find(info.APIGroup, info.Resource)
		if !ok || k.Version != info.APIVersion {
			next.ServeHTTP(w, r)
			return
		}
		refusal := apierrors.NewMethodNotSupported(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource},
			info.Verb)
		refusal.ErrStatus.Message = absent.Refusal(k.GroupKind())
		if name := cmp.Or(info.Name, nameIn(r)); name != "" {
			refusal.ErrStatus.Message = fmt.Sprintf("%s %q: %s", k.Kind, name, refusal.ErrStatus.Message)
		}
		responsewriters.ErrorNegotiated(refusal, scheme.Answers,
			schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
	})
}

// nameIn returns the name of the object in a request's body, if it is JSON and not large.
func nameIn(r *http.Request) string {
	var obj struct{ Metadata struct{ Name string } }
	if json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&obj) != nil {
		return ""
	}
	return obj.Metadata.Name
}
