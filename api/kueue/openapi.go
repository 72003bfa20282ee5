package kueue

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// OpenAPIModelName names the model of a Workload.
func (Workload) OpenAPIModelName() string { return "io.x-k8s.kueue.v1beta2.Workload" }

// OpenAPIModelName names the model of a list.
func (WorkloadList) OpenAPIModelName() string { return "io.x-k8s.kueue.v1beta2.WorkloadList" }

// Definitions adds the models of Workloads to those of get. Server-side apply needs to know that conditions are told apart by their type:
// a manager applies a single one, beside those of the worker.
func Definitions(get common.GetOpenAPIDefinitions) common.GetOpenAPIDefinitions {
	return func(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
		models := get(ref)
		models[Workload{}.OpenAPIModelName()] = workloadModel(ref)
		models[WorkloadList{}.OpenAPIModelName()] = listModel(ref)
		return models
	}
}

var keepsUnknown = spec.VendorExtensible{Extensions: spec.Extensions{"x-kubernetes-preserve-unknown-fields": true}}

func text(description string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Description: description, Type: []string{"string"}}}
}

func other(ref common.ReferenceCallback, model string) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Default: map[string]any{}, Ref: ref(model)}}
}

func listOf(description string, items spec.Schema, extensions spec.Extensions) spec.Schema {
	return spec.Schema{
		SchemaProps:      spec.SchemaProps{Description: description, Type: []string{"array"}, Items: &spec.SchemaOrArray{Schema: &items}},
		VendorExtensible: spec.VendorExtensible{Extensions: extensions},
	}
}

func workloadModel(ref common.ReferenceCallback) common.OpenAPIDefinition {
	meta, condition := metav1.ObjectMeta{}.OpenAPIModelName(), metav1.Condition{}.OpenAPIModelName()
	conditions := listOf("conditions are those of Kueue.", other(ref, condition), spec.Extensions{
		"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": []any{"type"},
	})
	return common.OpenAPIDefinition{
		Schema: spec.Schema{SchemaProps: spec.SchemaProps{
			Description: "Workload is a Job that a manager of MultiKueue wants to run here.", Type: []string{"object"},
			Properties: map[string]spec.Schema{
				"apiVersion": text("apiVersion is kueue.x-k8s.io/v1beta2."),
				"kind":       text("kind is Workload."),
				"metadata":   other(ref, meta),
				"spec": {
					SchemaProps:      spec.SchemaProps{Description: "spec is kept as the manager has written it.", Type: []string{"object"}},
					VendorExtensible: keepsUnknown,
				},
				"status": {
					SchemaProps: spec.SchemaProps{
						Description: "status says whether it is admitted, and has finished.", Type: []string{"object"},
						Properties: map[string]spec.Schema{"conditions": conditions},
					},
					VendorExtensible: keepsUnknown,
				},
			},
		}},
		Dependencies: []string{meta, condition},
	}
}

func listModel(ref common.ReferenceCallback) common.OpenAPIDefinition {
	meta, item := metav1.ListMeta{}.OpenAPIModelName(), Workload{}.OpenAPIModelName()
	return common.OpenAPIDefinition{
		Schema: spec.Schema{SchemaProps: spec.SchemaProps{
			Description: "WorkloadList is a list of Workloads.", Type: []string{"object"}, Required: []string{"items"},
			Properties: map[string]spec.Schema{
				"apiVersion": text("apiVersion is kueue.x-k8s.io/v1beta2."),
				"kind":       text("kind is WorkloadList."),
				"metadata":   other(ref, meta),
				"items":      listOf("items are the Workloads.", other(ref, item), nil),
			},
		}},
		Dependencies: []string{meta, item},
	}
}
