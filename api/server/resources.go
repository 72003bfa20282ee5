package server

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/jobd/jobd/api/admit"
	"github.com/jobd/jobd/api/annotations"
	"github.com/jobd/jobd/api/disruption"
	"github.com/jobd/jobd/api/elements"
	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/reach"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/api/transfer"
	"github.com/jobd/jobd/internal/printable"
)

// resources returns the endpoints of one kind: the object, its subresources, and what this kind alone has.
func (s *Server) resources(k *kind.Kind) (map[string]rest.Storage, error) {
	objects, err := s.registry(k)
	if err != nil {
		return nil, err
	}
	served := map[string]rest.Storage{k.Resource: &resource{objects, k}}
	if k.Name == "Namespace" {
		objects.ShouldDeleteDuringUpdate = namespaceIsDone
	}
	for name, rules := range k.Subresources {
		part := *objects
		update := strategy{rules, scheme.Scheme, names.SimpleNameGenerator, k, s.knownReceivers()}
		part.UpdateStrategy, part.ResetFieldsStrategy = update, update
		served[k.Resource+"/"+name] = subresource{&part}
	}
	inJSON := rawAnswer{objects, runtime.ContentTypeJSON}
	switch k.GroupResource() {
	case schema.GroupResource{Resource: "events"}:
		objects.TTLFunc = func(runtime.Object, uint64, bool) (uint64, error) {
			return uint64(s.config.EventTTL / time.Second), nil
		}
	case schema.GroupResource{Resource: "pods"}:
		served["pods/log"] = &podLog{rawAnswer{objects, "text/plain"}, s.config.Logs, s.config.ShownLogs, s.config.NodeName}
		served["pods/why"] = &explanation{inJSON, k, s}
		into := reach.New(objects, s.config.Containers, authorizer.AuthorizerFunc(s.access.Authorize), s.reaches)
		served["pods/exec"], served["pods/attach"], served["pods/portforward"] = reach.Exec{Pods: into}, reach.Attach{Pods: into},
			reach.PortForward{Pods: into}
		served["pods/proxy"] = reach.Proxy{Pods: into}
		served["pods/files"] = transfer.NewPodFiles(objects, s.reaches, s.config.PodFiles, s.config.Containers, s.config.Logger)
		binding := podBinding{objects}
		served["pods/binding"], served["bindings"] = binding, bindings{binding}
		budgets, err := s.registry(disruption.Kind())
		if err != nil {
			return nil, err
		}
		served["pods/eviction"] = &podEviction{objects, disruptionBudgets{budgets, s.config.Store}}
		served["pods/resize"] = podResize{served["pods/resize"].(subresource)}
	case schema.GroupResource{Group: "batch", Resource: "jobs"}:
		served["jobs"] = &jobs{&resource{objects, k}}
		served["jobs/log"] = &jobLog{rawAnswer{objects, "text/plain"}, s.config.JobLogs, s.config.NodeName}
		served["jobs/why"] = &explanation{inJSON, k, s}
		served["jobs/picture"] = &jobPicture{inJSON, s}
		admits := s.admits.(admission.ValidationInterface)
		served["jobs/retry"] = newJobRetry(objects, admits)
		served["jobs/move"] = newJobMove(objects, admits, s.config.Begun)
		objects.TableConvertor = queueColumn{objects.TableConvertor, s.config.Queue, s.config.Forecasts}
	case schema.GroupResource{Group: "batch", Resource: "cronjobs"}:
		served["cronjobs/why"] = &explanation{inJSON, k, s}
	case schema.GroupResource{Group: "jobset.x-k8s.io", Resource: "jobsets"}:
		served["jobsets/why"] = &explanation{inJSON, k, s}
		served["jobsets/picture"] = &setPicture{inJSON, s}
	case schema.GroupResource{Resource: "services"},
		schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}:
		objects.AfterDelete = func(deleted runtime.Object, _ *metav1.DeleteOptions) { s.keepKubernetesService(deleted) }
		objects.AfterUpdate = func(updated runtime.Object, _ *metav1.UpdateOptions) { s.keepKubernetesService(updated) }
		if k.Name == "Service" {
			noted := objects.BeginCreate
			objects.BeginCreate = func(ctx context.Context, obj runtime.Object, options *metav1.CreateOptions) (registry.FinishFunc, error) {
				if _, err := noted(ctx, obj, options); err != nil {
					return nil, err
				}
				return s.addresses.create(ctx, obj, options)
			}
			objects.BeginUpdate = s.addresses.update
			served["services/proxy"] = reach.NewServiceProxy(s.config.Containers, s.reaches, objects, s.podSecurity().Pods)
		}
	case schema.GroupResource{Group: networkingv1.GroupName, Resource: "networkpolicies"}:
		s.boundPolicies(objects)
	case rbacv1.Resource("roles"), rbacv1.Resource("rolebindings"):
		s.boundRights(objects, k)
	case schema.GroupResource{Resource: "persistentvolumeclaims"}:
		served["persistentvolumeclaims/files"] = transfer.NewClaimFiles(objects, s.config.ClaimFiles, s.config.NodeName,
			s.config.Logger)
	case schema.GroupResource{Resource: "serviceaccounts"}:
		served["serviceaccounts/token"] = &accountToken{accounts: objects, tokens: s.config.Tokens}
	case schema.GroupResource{Resource: "nodes"}:
		served["nodes/usage"] = nodeUsage{inJSON, s.config.Past}
	case schema.GroupResource{Resource: "namespaces"}:
		served["namespaces"] = &namespaces{&resource{objects, k}}
	}
	return served, nil
}

// registry returns apiserver's generic registry of one kind over the store.
func (s *Server) registry(k *kind.Kind) (*registry.Store, error) {
	rules := strategy{k.Strategy, scheme.Scheme, names.SimpleNameGenerator, k, s.knownReceivers()}
	attrs := attributes(k)
	r := &registry.Store{
		NewFunc:                   k.New,
		NewListFunc:               k.NewList,
		DefaultQualifiedResource:  k.GroupResource(),
		SingularQualifiedResource: schema.GroupResource{Group: k.GroupVersion.Group, Resource: k.Singular},
		CreateStrategy:            rules,
		UpdateStrategy:            rules,
		DeleteStrategy:            rules,
		ResetFieldsStrategy:       rules,
		TableConvertor:            newTable(k),
		PredicateFunc: func(label labels.Selector, field fields.Selector) apistorage.SelectionPredicate {
			return apistorage.SelectionPredicate{Label: label, Field: field, GetAttrs: attrs}
		},
		BeginCreate: func(ctx context.Context, obj runtime.Object, _ *metav1.CreateOptions) (registry.FinishFunc, error) {
			if m, err := meta.Accessor(obj); err == nil {
				noteCreated(ctx, m.GetName())
			}
			return func(context.Context, bool) {}, nil
		},
	}
	options := &generic.StoreOptions{RESTOptions: restOptions{s, k}, AttrFunc: attrs}
	return r, r.CompleteWithOptions(options)
}

// resource is the endpoint of a kind's objects.
type resource struct {
	*registry.Store
	kind *kind.Kind
}

func (r *resource) ShortNames() []string { return r.kind.ShortNames }
func (r *resource) Categories() []string { return r.kind.Categories }

func (r *resource) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, force bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	end, err := storage.Begin(ctx)
	if err != nil {
		return nil, false, err
	}
	defer end()
	return r.Store.Update(storage.Updating(ctx), name, clientsFault{info}, create, update, force, options)
}

func (r *resource) Create(
	ctx context.Context, obj runtime.Object, validate rest.ValidateObjectFunc, options *metav1.CreateOptions,
) (runtime.Object, error) {
	end, err := storage.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	return r.Store.Create(ctx, obj, validate, options)
}

func (r *resource) Delete(
	ctx context.Context, name string, validate rest.ValidateObjectFunc, options *metav1.DeleteOptions,
) (runtime.Object, bool, error) {
	end, err := storage.Begin(ctx)
	if err != nil {
		return nil, false, err
	}
	defer end()
	return r.Store.Delete(ctx, name, validate, options)
}

var (
	_ rest.Patcher             = subresource{}
	_ rest.ResetFieldsStrategy = subresource{}
	_ rest.TableConvertor      = subresource{}
)

// subresource reads and writes a part of an object, and nothing more of what the registry could do.
type subresource struct{ objects *registry.Store }

func (p subresource) New() runtime.Object { return p.objects.New() }
func (p subresource) Destroy()            {}

func (p subresource) Get(ctx context.Context, name string, options *metav1.GetOptions) (runtime.Object, error) {
	return p.objects.Get(ctx, name, options)
}

// Update never creates: a part needs an object.
func (p subresource) Update(
	ctx context.Context, name string, info rest.UpdatedObjectInfo, create rest.ValidateObjectFunc,
	update rest.ValidateObjectUpdateFunc, _ bool, options *metav1.UpdateOptions,
) (runtime.Object, bool, error) {
	end, err := storage.Begin(ctx)
	if err != nil {
		return nil, false, err
	}
	defer end()
	return p.objects.Update(storage.Updating(ctx), name, clientsFault{info}, create, update, false, options)
}

func (p subresource) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	return p.objects.ResetFieldsStrategy.GetResetFields()
}

func (p subresource) ConvertToTable(ctx context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	return p.objects.ConvertToTable(ctx, obj, options)
}

// strategy adds to the rules of a kind what follows from its description.
type strategy struct {
	kind.Strategy
	runtime.ObjectTyper
	names.NameGenerator
	kind      *kind.Kind
	receivers annotations.Receivers
}

func (s strategy) NamespaceScoped() bool { return s.kind.Namespaced }

// Canonicalize does nothing: PrepareForCreate and PrepareForUpdate leave objects as they are stored.
func (s strategy) Canonicalize(runtime.Object) {}

func (s strategy) Validate(ctx context.Context, obj runtime.Object) field.ErrorList {
	if err := elements.InObject(obj); err != nil {
		return field.ErrorList{err}
	}
	if a := s.alias(ctx); a != nil && a.Check != nil {
		return first(append(metadataNames(obj, nil), a.Check(obj)...))
	}
	return first(append(metadataNames(obj, nil), s.Strategy.Validate(ctx, obj)...))
}

func (s strategy) ValidateUpdate(ctx context.Context, obj, old runtime.Object) field.ErrorList {
	if a := s.alias(ctx); a != nil && a.CheckUpdate != nil {
		return first(append(metadataNames(obj, old), a.CheckUpdate(obj, old)...))
	}
	return first(append(metadataNames(obj, old), s.Strategy.ValidateUpdate(ctx, obj, old)...))
}

func (s strategy) WarningsOnCreate(ctx context.Context, obj runtime.Object) []string {
	own := append(annotations.Warnings(obj, nil), s.receivers.Warnings(obj, nil)...)
	return append(s.Strategy.WarningsOnCreate(ctx, obj), own...)
}

func (s strategy) WarningsOnUpdate(ctx context.Context, obj, old runtime.Object) []string {
	own := append(annotations.Warnings(obj, old), s.receivers.Warnings(obj, old)...)
	return append(s.Strategy.WarningsOnUpdate(ctx, obj, old), own...)
}

// alias returns the further group that a request was made to, nil for the kind's own.
func (s strategy) alias(ctx context.Context) *kind.Alias {
	info, ok := request.RequestInfoFrom(ctx)
	for i := range s.kind.AlsoIn {
		if a := &s.kind.AlsoIn[i]; ok && a.GroupVersion.Group == info.APIGroup {
			return a
		}
	}
	return nil
}

// metadataNames checks the names in the metadata of an object, of which old is the former version: those of finalizers are qualified,
// and those of owners no longer than a name can be, since they become parts of keys and are kept.
func metadataNames(obj, old runtime.Object) (errs field.ErrorList) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil
	}
	for i, name := range m.GetFinalizers() {
		switch name {
		case metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents, string(corev1.FinalizerKubernetes):
		default:
			if !strings.Contains(name, "/") {
				errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), name,
					"name is neither a standard finalizer name nor is it fully qualified"))
			}
		}
	}
	var before []metav1.OwnerReference
	if was, err := meta.Accessor(old); err == nil {
		before = was.GetOwnerReferences()
	}
	for i, owner := range m.GetOwnerReferences() {
		path := field.NewPath("metadata", "ownerReferences").Index(i)
		if slices.ContainsFunc(before, func(b metav1.OwnerReference) bool { return equality.Semantic.DeepEqual(b, owner) }) {
			continue
		}
		for _, part := range []struct {
			name, value string
			most        int
		}{
			{"apiVersion", owner.APIVersion, 2 * utilvalidation.DNS1123SubdomainMaxLength},
			{"kind", owner.Kind, utilvalidation.DNS1123SubdomainMaxLength},
			{"name", owner.Name, utilvalidation.DNS1123SubdomainMaxLength},
		} {
			if len(part.value) > part.most {
				errs = append(errs, field.TooLong(path.Child(part.name), "", part.most))
			}
		}
	}
	return errs
}

func (s strategy) GetResetFields() map[fieldpath.APIVersion]*fieldpath.Set {
	fields := s.ResetFields()
	if fields == nil {
		return nil
	}
	return map[fieldpath.APIVersion]*fieldpath.Set{fieldpath.APIVersion(s.kind.GroupVersion.String()): fields}
}

// attributes returns a function that reads what selectors match.
func attributes(k *kind.Kind) apistorage.AttrFunc {
	return func(obj runtime.Object) (labels.Set, fields.Set, error) {
		m, err := meta.Accessor(obj)
		if err != nil {
			return nil, nil, err
		}
		set := make(fields.Set, len(k.Fields)+2)
		set["metadata.name"] = m.GetName()
		if k.Namespaced {
			set["metadata.namespace"] = m.GetNamespace()
		}
		for name, get := range k.Fields {
			set[name] = get(obj)
		}
		return m.GetLabels(), set, nil
	}
}

// restOptions connects the registry to the store.
type restOptions struct {
	server *Server
	kind   *kind.Kind
}

func (o restOptions) GetRESTOptions(gr schema.GroupResource, _ runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{
		StorageConfig: &storagebackend.ConfigForResource{
			Config:        storagebackend.Config{Codec: scheme.StorageCodec},
			GroupResource: gr,
		},
		Decorator:               o.storage,
		EnableGarbageCollection: true,
		DeleteCollectionWorkers: 16, // their changes share commits
		ResourcePrefix:          "/" + gr.String(),
	}, nil
}

func (o restOptions) storage(
	c *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error), newObject,
	_ func() runtime.Object, _ apistorage.AttrFunc, _ apistorage.IndexerFuncs, _ *cache.Indexers,
) (apistorage.Interface, factory.DestroyFunc, error) {
	made := storage.New(o.server.config.Store, c.Codec, prefix, newObject)
	made.Admit = admit.QuotaInTransaction(o.kind)
	made.Panicked = o.server.panics.watcher
	return made, func() {}, nil
}

// table prints objects in the columns of their kind.
type table struct {
	columns []metav1.TableColumnDefinition
	cells   func(runtime.Object, time.Time) []any
}

func newTable(k *kind.Kind) rest.TableConvertor {
	if k.Cells == nil {
		return rest.NewDefaultTableConvertor(k.GroupResource())
	}
	return table{k.Columns, k.Cells}
}

// legible changes cells into what people can look at: a table is for nobody else, and clients print it as it is.
func legible(cells []any) []any {
	for i, c := range cells {
		if text, ok := c.(string); ok {
			cells[i] = printable.Text(text)
		}
	}
	return cells
}

func (t table) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	out := &metav1.Table{}
	now := time.Now()
	add := func(item runtime.Object) error {
		out.Rows = append(out.Rows,
			metav1.TableRow{Cells: legible(t.cells(item, now)), Object: runtime.RawExtension{Object: item}})
		return nil
	}
	if list, err := meta.ListAccessor(obj); err == nil {
		out.ResourceVersion, out.Continue, out.RemainingItemCount = list.GetResourceVersion(), list.GetContinue(),
			list.GetRemainingItemCount()
		if err := meta.EachListItem(obj, add); err != nil {
			return nil, err
		}
	} else {
		m, err := meta.CommonAccessor(obj)
		if err != nil {
			return nil, err
		}
		out.ResourceVersion = m.GetResourceVersion()
		_ = add(obj)
	}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		out.ColumnDefinitions = t.columns
	}
	return out, nil
}
