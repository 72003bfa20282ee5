package scheme

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/absent"
	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/coordination"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/discovery"
	"github.com/jobd/jobd/api/disruption"
	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/kueue"
	"github.com/jobd/jobd/api/networking"
	"github.com/jobd/jobd/api/rbac"
	"github.com/jobd/jobd/api/runtimeclass"
	"github.com/jobd/jobd/api/scheduling"
	"github.com/jobd/jobd/api/storageclass"
	"github.com/jobd/jobd/api/usage"
)

// groups register the Go types. Kinds lists those that are served.
var groups = []func(*runtime.Scheme) error{
	corev1.AddToScheme,
	batchv1.AddToScheme,
	eventsv1.AddToScheme,
	networkingv1.AddToScheme,
	nodev1.AddToScheme,
	policyv1.AddToScheme,
	rbacv1.AddToScheme,
	schedulingv1.AddToScheme,
	schedulingv1beta1.AddToScheme,
	coordinationv1.AddToScheme,
	discoveryv1.AddToScheme,
	storagev1.AddToScheme,
	authenticationv1.AddToScheme,
	authorizationv1.AddToScheme,
	absent.AddToScheme,
	usage.AddToScheme,
	jobsetv1.AddToScheme,
	kueue.AddToScheme,
}

// hubs lists the kinds that are decoded and not stored: the body of an eviction, what clients ask about themselves.
var hubs = map[schema.GroupVersion][]runtime.Object{
	{Group: authenticationv1.GroupName, Version: runtime.APIVersionInternal}: {
		&authenticationv1.SelfSubjectReview{}, &authenticationv1.TokenRequest{}, &authenticationv1.TokenReview{},
	},
	{Group: authorizationv1.GroupName, Version: runtime.APIVersionInternal}: {
		&authorizationv1.SelfSubjectAccessReview{}, &authorizationv1.SelfSubjectRulesReview{},
		&authorizationv1.SubjectAccessReview{}, &authorizationv1.LocalSubjectAccessReview{},
	},
	{Group: policyv1.GroupName, Version: runtime.APIVersionInternal}: {&policyv1.Eviction{}},
	EvictionBeta:                          {&policyv1.Eviction{}},
	{Version: runtime.APIVersionInternal}: {&corev1.Binding{}, &corev1.PodLogOptions{}, &corev1.PodExecOptions{}},
}

// EvictionBeta is the older version in which clusters still accept an eviction. It has the same fields.
var EvictionBeta = schema.GroupVersion{Group: policyv1.GroupName, Version: "v1beta1"}

// Kinds lists every kind that is served.
func Kinds() []*kind.Kind {
	return []*kind.Kind{
		core.NamespaceKind(),
		core.PodKind(),
		core.EventKind(),
		core.ConfigMapKind(),
		core.SecretKind(),
		core.ServiceKind(),
		core.ServiceAccountKind(),
		core.LimitRangeKind(),
		core.ResourceQuotaKind(),
		core.NodeKind(),
		core.PersistentVolumeClaimKind(),
		core.PersistentVolumeKind(),
		storageclass.Kind(),
		discovery.EndpointSliceKind(),
		networking.NetworkPolicyKind(),
		runtimeclass.RuntimeClassKind(),
		scheduling.PriorityClassKind(),
		scheduling.WorkloadKind(),
		scheduling.PodGroupKind(),
		coordination.LeaseKind(),
		disruption.Kind(),
		rbac.RoleKind(),
		rbac.RoleBindingKind(),
		rbac.ClusterRoleKind(),
		rbac.ClusterRoleBindingKind(),
		batch.JobKind(),
		batch.CronJobKind(),
		jobset.Kind(),
		kueue.Kind(),
	}
}

func defaultItems(list runtime.Object, set func(runtime.Object)) {
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		set(item)
		return nil
	})
}
