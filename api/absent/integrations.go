package absent

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Integrations are the kinds that a manager of MultiKueue looks for on each of its workers, by its default configuration, beside Jobs and
// JobSets: without one of them it does not connect. They are shown only where such a manager is let in.
var Integrations = []Kind{
	integration[mpiJob]("kubeflow.org/v2beta1"),
	integration[rayCluster]("ray.io/v1"),
	integration[rayJob]("ray.io/v1"),
	integration[rayService]("ray.io/v1"),
	integration[appWrapper]("workload.codeflare.dev/v1beta2"),
	integration[trainJob]("trainer.kubeflow.org/v1alpha1"),
	integration[leaderWorkerSet]("leaderworkerset.x-k8s.io/v1"),
}

// IsIntegration reports whether a group is one of an integration.
func IsIntegration(group string) bool {
	return slices.ContainsFunc(Integrations, func(k Kind) bool { return k.Group == group })
}

// named is the name of a kind, as a type.
type named interface{ kind() string }

type (
	mpiJob          struct{}
	rayCluster      struct{}
	rayJob          struct{}
	rayService      struct{}
	appWrapper      struct{}
	trainJob        struct{}
	leaderWorkerSet struct{}
)

func (mpiJob) kind() string          { return "MPIJob" }
func (rayCluster) kind() string      { return "RayCluster" }
func (rayJob) kind() string          { return "RayJob" }
func (rayService) kind() string      { return "RayService" }
func (appWrapper) kind() string      { return "AppWrapper" }
func (trainJob) kind() string        { return "TrainJob" }
func (leaderWorkerSet) kind() string { return "LeaderWorkerSet" }

// bare is an object of such a kind, which never exists: no more than what any has. A scheme tells kinds apart by their Go types.
type bare[K named] struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

type bareList[K named] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []bare[K] `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (b *bare[K]) DeepCopyObject() runtime.Object {
	out := &bare[K]{TypeMeta: b.TypeMeta}
	b.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return out
}

// DeepCopyObject implements runtime.Object.
func (l *bareList[K]) DeepCopyObject() runtime.Object {
	out := &bareList[K]{TypeMeta: l.TypeMeta, Items: slices.Clone(l.Items)}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		l.Items[i].ObjectMeta.DeepCopyInto(&out.Items[i].ObjectMeta)
	}
	return out
}

// OpenAPIModelName names the model of such a kind.
func (bare[K]) OpenAPIModelName() string { return "dev.jobd.absent." + (*new(K)).kind() }

// OpenAPIModelName names the model of a list.
func (bareList[K]) OpenAPIModelName() string { return "dev.jobd.absent." + (*new(K)).kind() + "List" }

func integration[K named](version string) Kind {
	gv, err := schema.ParseGroupVersion(version)
	if err != nil {
		panic(err) // of a constant
	}
	return of[bare[K], bareList[K]](gv, (*new(K)).kind(), nil)
}

// addIntegrations registers the Go types of the integrations, whose names are not those of the kinds.
func addIntegrations(s *runtime.Scheme) {
	for _, k := range Integrations {
		for _, gv := range []schema.GroupVersion{{Group: k.Group, Version: runtime.APIVersionInternal}, k.GroupVersion()} {
			s.AddKnownTypeWithName(gv.WithKind(k.Kind), k.New())
			s.AddKnownTypeWithName(gv.WithKind(k.Kind+"List"), k.NewList())
		}
		metav1.AddToGroupVersion(s, k.GroupVersion())
	}
}
