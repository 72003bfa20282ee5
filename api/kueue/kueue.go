// Package kueue is the kind Workload of the group kueue.x-k8s.io, as far as a worker of MultiKueue needs it: a manager makes one for each
// Job that it hands out, waits until the worker admits it, and makes the Job then.
//
// What a manager writes is kept as it came: it compares the spec of a Workload with its own, and makes it anew if they differ in anything.
// So there are no defaults, and of the spec no more is read than the pods that are to come (Spec). Kueue's own types are not linked.
//
// It is a pure package.
package kueue

import (
	"encoding/json"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// GroupVersion is the only version that is served; managers have it since Kueue 0.17.
var GroupVersion = schema.GroupVersion{Group: "kueue.x-k8s.io", Version: "v1beta2"}

// OriginLabel names the manager that a Job or a Workload is from.
const OriginLabel = "kueue.x-k8s.io/multikueue-origin"

// The conditions of a Workload that a worker reads or writes.
const (
	QuotaReserved      = "QuotaReserved"
	Admitted           = "Admitted"
	Finished           = "Finished"
	Evicted            = "Evicted"
	DeactivationTarget = "DeactivationTarget"
)

// Workload is what a manager wants to run here. Spec and Status are JSON as it came.
type Workload struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Raw `json:"spec,omitempty"`
	Status Raw `json:"status,omitempty"`
}

// Raw is JSON as it came.
type Raw []byte

// MarshalJSON implements json.Marshaler.
func (r Raw) MarshalJSON() ([]byte, error) { return json.RawMessage(r).MarshalJSON() }

// UnmarshalJSON refuses what has no value in Go, such as the number 1e999: whoever looks into it later, as server-side apply does, would panic.
func (r *Raw) UnmarshalJSON(data []byte) error {
	var value any
	if err := utiljson.Unmarshal(data, &value); err != nil {
		return err
	}
	*r = append((*r)[:0], data...)
	return nil
}

// WorkloadList is a list of Workloads.
type WorkloadList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Workload `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (w *Workload) DeepCopyObject() runtime.Object {
	out := &Workload{}
	w.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies a Workload.
func (w *Workload) DeepCopyInto(out *Workload) {
	out.TypeMeta = w.TypeMeta
	w.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec, out.Status = append(Raw(nil), w.Spec...), append(Raw(nil), w.Status...)
}

// DeepCopyObject implements runtime.Object.
func (l *WorkloadList) DeepCopyObject() runtime.Object {
	out := &WorkloadList{TypeMeta: l.TypeMeta}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	if l.Items != nil {
		out.Items = make([]Workload, len(l.Items))
	}
	for i := range l.Items {
		l.Items[i].DeepCopyInto(&out.Items[i])
	}
	return out
}

// AddToScheme registers the Go types.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Workload{}, &WorkloadList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// ForJob reports whether a Workload is for a Job. It does not say so, but for the beginning of its name, which Kueue makes of the kind.
func ForJob(name string) bool { return strings.HasPrefix(name, "job-") }

// Owner returns the name and the UID of the Job that a Workload belongs to; both are empty for none.
func Owner(w *Workload) (name string, uid types.UID) {
	owner := metav1.GetControllerOfNoCopy(w)
	if owner == nil || owner.Kind != "Job" || !strings.HasPrefix(owner.APIVersion, batchv1.GroupName+"/") {
		return "", ""
	}
	return owner.Name, owner.UID
}

// Spec is what a worker reads of a Workload's spec.
type Spec struct {
	PodSets []PodSet `json:"podSets,omitempty"`
	// Active is false if it is to be stopped.
	Active *bool `json:"active,omitempty"`
}

// PodSet is a number of pods that are alike.
type PodSet struct {
	Name     string                 `json:"name,omitempty"`
	Count    int32                  `json:"count,omitempty"`
	Template corev1.PodTemplateSpec `json:"template"`
}

// Conditions returns those of a Workload, which were validated when it was stored.
func Conditions(w *Workload) []metav1.Condition {
	conditions, _ := conditionsOf(w.Status)
	return conditions
}

func conditionsOf(status []byte) ([]metav1.Condition, error) {
	if len(status) == 0 {
		return nil, nil
	}
	read := struct {
		Conditions []metav1.Condition `json:"conditions"`
	}{}
	err := utiljson.Unmarshal(status, &read)
	return read.Conditions, err
}

// SetConditions replaces the conditions of a Workload, and keeps the rest of its status.
func SetConditions(w *Workload, conditions []metav1.Condition) error {
	status := map[string]json.RawMessage{}
	if len(w.Status) > 0 {
		if err := json.Unmarshal(w.Status, &status); err != nil {
			return fmt.Errorf("status: %w", err)
		}
	}
	if status == nil { // it was null
		status = map[string]json.RawMessage{}
	}
	var err error
	if status["conditions"], err = json.Marshal(conditions); err != nil {
		return fmt.Errorf("conditions: %w", err)
	}
	if w.Status, err = json.Marshal(status); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	return nil
}
