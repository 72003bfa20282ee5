package upstream

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"
	"k8s.io/kubernetes/pkg/registry/coordination/lease"
	"k8s.io/kubernetes/pkg/registry/core/configmap"
	"k8s.io/kubernetes/pkg/registry/core/event"
	"k8s.io/kubernetes/pkg/registry/core/limitrange"
	"k8s.io/kubernetes/pkg/registry/core/namespace"
	"k8s.io/kubernetes/pkg/registry/core/node"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolume"
	"k8s.io/kubernetes/pkg/registry/core/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/registry/core/pod"
	"k8s.io/kubernetes/pkg/registry/core/resourcequota"
	"k8s.io/kubernetes/pkg/registry/core/secret"
	"k8s.io/kubernetes/pkg/registry/core/service"
	"k8s.io/kubernetes/pkg/registry/core/serviceaccount"
	"k8s.io/kubernetes/pkg/registry/discovery/endpointslice"
	"k8s.io/kubernetes/pkg/registry/networking/networkpolicy"
	"k8s.io/kubernetes/pkg/registry/node/runtimeclass"
	"k8s.io/kubernetes/pkg/registry/policy/poddisruptionbudget"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrole"
	"k8s.io/kubernetes/pkg/registry/rbac/clusterrolebinding"
	"k8s.io/kubernetes/pkg/registry/rbac/role"
	"k8s.io/kubernetes/pkg/registry/rbac/rolebinding"
	"k8s.io/kubernetes/pkg/registry/scheduling/podgroup"
	"k8s.io/kubernetes/pkg/registry/scheduling/priorityclass"
	"k8s.io/kubernetes/pkg/registry/scheduling/workload"
	"k8s.io/kubernetes/pkg/registry/storage/storageclass"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/scheme"
)

func init() {
	// What jobd serves of the features that a cluster has switched off unless it is told otherwise.
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(map[string]bool{
		"GenericWorkload": true, "WorkloadWithJob": true, "TopologyAwareWorkloadScheduling": true,
	})
	if err != nil {
		panic(err)
	}
	klog.SetLogger(logr.Discard()) // both sides are given what no server would let through, and complain
	capabilities.Setup(true, 0)    // as clusters are set up
}

// strategy is what both sides have for each kind.
type strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

var clusterStrategies = map[string]strategy{
	"ClusterRole":           clusterrole.Strategy,
	"ClusterRoleBinding":    clusterrolebinding.Strategy,
	"ConfigMap":             configmap.Strategy,
	"CronJob":               cronjob.Strategy,
	"EndpointSlice":         endpointslice.Strategy,
	"Event":                 event.Strategy,
	"Job":                   job.Strategy,
	"Lease":                 lease.Strategy,
	"LimitRange":            limitrange.Strategy,
	"Namespace":             namespace.Strategy,
	"NetworkPolicy":         networkpolicy.Strategy,
	"Node":                  node.Strategy,
	"PersistentVolume":      persistentvolume.Strategy,
	"PersistentVolumeClaim": persistentvolumeclaim.Strategy,
	"Pod":                   pod.Strategy,
	"PodDisruptionBudget":   poddisruptionbudget.Strategy,
	"PodGroup":              podgroup.NewStrategy(),
	"PriorityClass":         priorityclass.Strategy,
	"ResourceQuota":         resourcequota.Strategy,
	"Role":                  role.Strategy,
	"RoleBinding":           rolebinding.Strategy,
	"RuntimeClass":          runtimeclass.Strategy,
	"Secret":                secret.Strategy,
	"Service":               service.Strategy,
	"ServiceAccount":        serviceaccount.Strategy,
	"StorageClass":          storageclass.Strategy,
	"Workload":              workload.Strategy,
}

var clusterStatusStrategies = map[string]rest.RESTUpdateStrategy{
	"CronJob":               cronjob.StatusStrategy,
	"Job":                   job.StatusStrategy,
	"Namespace":             namespace.StatusStrategy,
	"Node":                  node.StatusStrategy,
	"PersistentVolume":      persistentvolume.StatusStrategy,
	"PersistentVolumeClaim": persistentvolumeclaim.StatusStrategy,
	"Pod":                   pod.StatusStrategy,
	"PodDisruptionBudget":   poddisruptionbudget.StatusStrategy,
	"PodGroup":              podgroup.NewStatusStrategy(podgroup.NewStrategy()),
	"ResourceQuota":         resourcequota.StatusStrategy,
}

// own makes the rules of a kind what the registry takes, as api/server does.
type own struct {
	kind.Strategy
	runtime.ObjectTyper
	names.NameGenerator
	kind *kind.Kind
}

func (s own) NamespaceScoped() bool       { return s.kind.Namespaced }
func (s own) Canonicalize(runtime.Object) {}

func ownStrategy(k *kind.Kind, rules kind.Strategy) own {
	return own{rules, scheme.Scheme, names.SimpleNameGenerator, k}
}

// side is jobd or a cluster: how it fills in defaults, and the Go types that its rules are written in.
type side struct {
	defaults func(k *kind.Kind, obj runtime.Object)
	hub      func(k *kind.Kind, obj runtime.Object) (runtime.Object, error)
	external func(k *kind.Kind, obj runtime.Object) (runtime.Object, error)
	rules    func(k *kind.Kind) strategy
	status   func(k *kind.Kind) rest.RESTUpdateStrategy
}

func same(_ *kind.Kind, obj runtime.Object) (runtime.Object, error) { return obj.DeepCopyObject(), nil }

func convert(obj runtime.Object, version schema.GroupVersion) (runtime.Object, error) {
	converted, err := legacyscheme.Scheme.ConvertToVersion(obj.DeepCopyObject(), version)
	if err != nil {
		return nil, err
	}
	converted.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return converted, nil
}

var jobd = side{
	defaults: func(k *kind.Kind, obj runtime.Object) {
		if k.Default != nil {
			k.Default(obj)
		}
	},
	hub:      same,
	external: same,
	rules:    func(k *kind.Kind) strategy { return ownStrategy(k, k.Strategy) },
	status:   func(k *kind.Kind) rest.RESTUpdateStrategy { return ownStrategy(k, k.Subresources["status"]) },
}

var cluster = side{
	defaults: func(_ *kind.Kind, obj runtime.Object) { legacyscheme.Scheme.Default(obj) },
	hub: func(k *kind.Kind, obj runtime.Object) (runtime.Object, error) {
		return convert(obj, schema.GroupVersion{Group: k.GroupVersion.Group, Version: runtime.APIVersionInternal})
	},
	external: func(k *kind.Kind, obj runtime.Object) (runtime.Object, error) {
		stored, err := convert(obj, k.GroupVersion)
		if err == nil {
			legacyscheme.Scheme.Default(stored) // as whoever reads what is stored is given it
		}
		return stored, err
	},
	rules:  func(k *kind.Kind) strategy { return clusterStrategies[k.Name] },
	status: func(k *kind.Kind) rest.RESTUpdateStrategy { return clusterStatusStrategies[k.Name] },
}

// answer is what a side makes of a write.
type answer struct {
	defaulted runtime.Object
	errs      []problem
	stored    runtime.Object
	warnings  []string
}

// problem is an error as a client reads it.
type problem struct{ Field, Type, Message string }

func (p problem) String() string { return p.Field + ": " + p.Message }

func problems(errs field.ErrorList) []problem {
	var all []problem
	for _, e := range errs {
		// As apierrors.NewInvalid does, which leaves out what is said twice.
		if p := (problem{e.Field, string(e.Type), sortedValues(e.ErrorBody())}); !slices.Contains(all, p) {
			all = append(all, p)
		}
	}
	return all
}

var supported = regexp.MustCompile(`(supported|valid) values: (.*)$`)

// sortedValues brings the values that are supported into one order: a cluster's is of no meaning.
func sortedValues(message string) string {
	return supported.ReplaceAllStringFunc(message, func(s string) string {
		words, list, _ := strings.Cut(s, ": ")
		values := strings.Split(list, ", ")
		slices.Sort(values)
		return words + ": " + strings.Join(values, ", ")
	})
}

const namespaceName = "default"

func contextOf(k *kind.Kind, verb, subresource string) context.Context {
	ns := ""
	if k.Namespaced {
		ns = namespaceName
	}
	ctx := request.WithNamespace(context.Background(), ns)
	return request.WithRequestInfo(ctx, &request.RequestInfo{
		IsResourceRequest: true, Verb: verb, Namespace: ns,
		APIGroup: k.GroupVersion.Group, APIVersion: k.GroupVersion.Version, Resource: k.Resource, Subresource: subresource,
	})
}

// create takes a decoded manifest through what a server does until it is stored.
func (s side) create(k *kind.Kind, manifest runtime.Object) (a answer, err error) {
	defer recovered(&err)
	obj := manifest.DeepCopyObject()
	s.defaults(k, obj)
	hub, err := s.hub(k, obj)
	if err != nil {
		return a, err
	}
	if a.defaulted, err = s.external(k, hub); err != nil {
		return a, err
	}
	ctx, rules := contextOf(k, "create", ""), s.rules(k)
	rules.PrepareForCreate(ctx, hub)
	a.errs = problems(rest.ValidateCreate(ctx, hub, rules))
	if len(a.errs) == 0 {
		a.warnings = rules.WarningsOnCreate(ctx, hub)
	}
	a.stored, err = s.external(k, hub)
	return a, err
}

// update takes the new state of an object through what a server does until it is stored.
func (s side) update(k *kind.Kind, manifest, stored runtime.Object, subresource string) (a answer, err error) {
	defer recovered(&err)
	obj := manifest.DeepCopyObject()
	s.defaults(k, obj)
	hub, err := s.hub(k, obj)
	if err != nil {
		return a, err
	}
	if a.defaulted, err = s.external(k, hub); err != nil {
		return a, err
	}
	old, err := s.hub(k, stored)
	if err != nil {
		return a, err
	}
	ctx := contextOf(k, "update", subresource)
	rules := rest.RESTUpdateStrategy(s.rules(k))
	if subresource != "" {
		rules = s.status(k)
	}
	newMeta, _ := meta.Accessor(hub)
	oldMeta, _ := meta.Accessor(old)
	newMeta.SetGeneration(oldMeta.GetGeneration())
	rules.PrepareForUpdate(ctx, hub, old)
	a.errs = problems(rest.ValidateUpdate(ctx, hub, old, rules))
	if len(a.errs) == 0 {
		a.warnings = rules.WarningsOnUpdate(ctx, hub, old)
	}
	a.stored, err = s.external(k, hub)
	return a, err
}

// recovered makes an error of a panic: both sides are given objects that no server would have let through.
func recovered(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("panic: %v", r)
	}
}

// received fills in what a server does before it looks at an object.
func received(k *kind.Kind, obj runtime.Object) {
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	m, _ := meta.Accessor(obj)
	m.SetUID("6b1f0000-0000-4000-8000-000000000000")
	m.SetCreationTimestamp(metav1.Unix(1e9, 0))
	m.SetManagedFields(nil)
	m.SetResourceVersion("")
	m.SetNamespace("")
	if k.Namespaced {
		m.SetNamespace(namespaceName)
	}
	if m.GetName() == "" {
		m.SetName(strings.ToLower(k.Name))
	}
}
