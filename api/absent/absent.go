// Package absent lists the kinds that jobd does not have and that clients look for all the same: kubectl apply --prune,
// kubectl cluster-info dump and others stop where a server does not know them. Discovery lists them as read-only, and their
// lists are always empty. The package defines their Go types, names and OpenAPI models; the server makes endpoints from
// those.
package absent

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Kind describes one absent kind. The table of them is made once and never changed.
type Kind struct {
	schema.GroupVersionKind
	Namespaced             bool
	ShortNames, Categories []string
	// New and NewList return empty objects of the Go type.
	New, NewList func() runtime.Object
}

// Resource is the plural in URLs.
func (k Kind) Resource() string {
	plural, _ := meta.UnsafeGuessKindToResource(k.GroupVersionKind)
	if k.Kind == "Endpoints" {
		return "endpoints"
	}
	return plural.Resource
}

// Kinds are those that kubectl 1.37 asks for by itself in apply --prune and cluster-info dump, what else a cluster has in the
// category "all", and what charts bring along to extend a cluster.
var Kinds = []Kind{
	//lint:ignore SA1019 a cluster still lists Endpoints, and tools ask for them
	of[corev1.Endpoints, corev1.EndpointsList](corev1.SchemeGroupVersion, "Endpoints", nil, "ep"),
	of[corev1.ReplicationController, corev1.ReplicationControllerList](corev1.SchemeGroupVersion,
		"ReplicationController", all, "rc"),
	of[appsv1.DaemonSet, appsv1.DaemonSetList](appsv1.SchemeGroupVersion, "DaemonSet", all, "ds"),
	of[appsv1.Deployment, appsv1.DeploymentList](appsv1.SchemeGroupVersion, "Deployment", all, "deploy"),
	of[appsv1.ReplicaSet, appsv1.ReplicaSetList](appsv1.SchemeGroupVersion, "ReplicaSet", all, "rs"),
	of[appsv1.StatefulSet, appsv1.StatefulSetList](appsv1.SchemeGroupVersion, "StatefulSet", all, "sts"),
	of[networkingv1.Ingress, networkingv1.IngressList](networkingv1.SchemeGroupVersion, "Ingress", nil, "ing"),
	of[autoscalingv2.HorizontalPodAutoscaler, autoscalingv2.HorizontalPodAutoscalerList](
		autoscalingv2.SchemeGroupVersion, "HorizontalPodAutoscaler", all, "hpa",
	),
	clusterWide(of[admissionv1.ValidatingWebhookConfiguration, admissionv1.ValidatingWebhookConfigurationList](
		admissionv1.SchemeGroupVersion, "ValidatingWebhookConfiguration", nil)),
	clusterWide(of[admissionv1.MutatingWebhookConfiguration, admissionv1.MutatingWebhookConfigurationList](
		admissionv1.SchemeGroupVersion, "MutatingWebhookConfiguration", nil)),
	clusterWide(of[apiextensionsv1.CustomResourceDefinition, apiextensionsv1.CustomResourceDefinitionList](
		apiextensionsv1.SchemeGroupVersion, "CustomResourceDefinition", []string{"api-extensions"}, "crd", "crds")),
}

var all = []string{"all"}

func of[T, L any, P interface {
	*T
	runtime.Object
}, Q interface {
	*L
	runtime.Object
}](gv schema.GroupVersion, name string, categories []string, short ...string) Kind {
	return Kind{
		GroupVersionKind: gv.WithKind(name), Namespaced: true, ShortNames: short, Categories: categories,
		New: func() runtime.Object { return P(new(T)) }, NewList: func() runtime.Object { return Q(new(L)) },
	}
}

func clusterWide(k Kind) Kind {
	k.Namespaced = false
	return k
}

// Find returns the absent kind of a resource.
func Find(group, resource string) (Kind, bool) {
	for _, k := range slices.Concat(Kinds, Integrations) {
		if k.Group == group && k.Resource() == resource {
			return k, true
		}
	}
	return Kind{}, false
}

// AddToScheme registers the Go types; those of the core group are there already.
func AddToScheme(s *runtime.Scheme) error {
	for _, k := range Kinds {
		if k.Group == "" {
			s.AddKnownTypes(schema.GroupVersion{Version: runtime.APIVersionInternal}, k.New(), k.NewList())
			continue
		}
		s.AddKnownTypes(schema.GroupVersion{Group: k.Group, Version: runtime.APIVersionInternal}, k.New(), k.NewList())
		s.AddKnownTypes(k.GroupVersion(), k.New(), k.NewList())
		metav1.AddToGroupVersion(s, k.GroupVersion())
	}
	addIntegrations(s)
	return nil
}

// Definitions adds the OpenAPI models of the kinds that have none to those of get. They say no more than that it is an
// object: nobody can create one.
func Definitions(get common.GetOpenAPIDefinitions) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		models := get(ref)
		for _, k := range slices.Concat(Kinds, Integrations) {
			for _, obj := range []runtime.Object{k.New(), k.NewList()} {
				name := obj.(interface{ OpenAPIModelName() string }).OpenAPIModelName()
				if _, ok := models[name]; !ok {
					models[name] = opaque(name)
				}
			}
		}
		return models
	}
}

func opaque(name string) common.OpenAPIDefinition {
	kind := name[strings.LastIndexByte(name, '.')+1:]
	return common.OpenAPIDefinition{Schema: spec.Schema{
		SchemaProps: spec.SchemaProps{
			Type: []string{"object"}, Description: kind + " is a kind that jobd does not have.",
		},
		VendorExtensible: spec.VendorExtensible{Extensions: spec.Extensions{"x-kubernetes-preserve-unknown-fields": true}},
	}}
}
