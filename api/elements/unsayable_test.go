package elements

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What an object says is what everybody can read again.
func TestWhatCannotBeEncoded(t *testing.T) {
	late, err := time.Parse(time.RFC3339, "9999-12-31T23:59:59-05:00")
	if err != nil {
		t.Fatal(err)
	}
	port := func(value intstr.IntOrString) runtime.Object {
		return &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{
			{}, {Ports: []networkingv1.NetworkPolicyPort{{}, {Port: &value}}},
		}}}
	}
	ended := func(at time.Time) runtime.Object {
		return &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{LastTransitionTime: metav1.Time{Time: at}}}}}
	}
	for name, tc := range map[string]struct {
		obj  runtime.Object
		says string
	}{
		"the last second":       {ended(time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)), ""},
		"the second after that": {ended(late), "status.conditions[0].lastTransitionTime"},
		"no time":               {ended(time.Time{}), ""},
		"before Christ":         {ended(time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)), "status.conditions[0].lastTransitionTime"},
		"in the metadata": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Time: &metav1.Time{Time: late}}}}},
			"metadata.managedFields[0].time"},
		"a part of a second": {&corev1.Event{EventTime: metav1.MicroTime{Time: late}}, "eventTime"},
		"a number":           {port(intstr.FromInt32(80)), ""},
		"a name":             {port(intstr.FromString("http")), ""},
		"neither":            {port(intstr.IntOrString{Type: 7, StrVal: "http"}), "spec.ingress[1].ports[1].port"},
		"fields that are no JSON": {
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1("{")}}}},
			"metadata.managedFields[0].fieldsV1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			found := InObject(tc.obj)
			if tc.says == "" && found != nil || tc.says != "" && (found == nil || !strings.HasPrefix(found.Error(), tc.says+":")) {
				t.Errorf("%v, want %q", found, tc.says)
			}
			text, err := json.Marshal(tc.obj)
			if err == nil {
				err = json.Unmarshal(text, tc.obj)
			}
			if (err != nil) != (tc.says != "") {
				t.Errorf("JSON: %v", err)
			}
		})
	}
}
