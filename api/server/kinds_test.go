package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/kueue"
	"github.com/jobd/jobd/api/scheme"
)

// examples has an object of each kind that is served, without what all have in common, and one change to it.
var examples = map[string]struct{ object, change string }{
	"namespaces": {object: `{}`},
	"pods":       {object: `{spec: {containers: [{name: c, image: busybox}]}}`},
	"events":     {object: `{involvedObject: {namespace: default}, reason: Test, message: hello}`},
	"jobs.batch": {
		object: `{spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}`,
		change: `{"spec":{"parallelism":2}}`,
	},
	"cronjobs.batch": {
		object: `{spec: {schedule: "@hourly", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: busybox}]}}}}}}`,
		change: `{"spec":{"suspend":true}}`,
	},
	"jobsets.jobset.x-k8s.io": {
		object: `{spec: {replicatedJobs: [{name: a, template: {spec: {template: {spec: {containers: [{name: c, image: busybox}]}}}}}]}}`,
		change: `{"spec":{"suspend":true}}`,
	},
	"workloads.kueue.x-k8s.io":          {object: `{spec: {podSets: [{name: main, count: 1}]}}`, change: `{"spec":{"active":false}}`},
	"serviceaccounts":                   {object: `{}`, change: `{"automountServiceAccountToken":false}`},
	"nodes":                             {object: `{}`, change: `{"spec":{"unschedulable":true}}`},
	"priorityclasses.scheduling.k8s.io": {object: `{value: 7}`, change: `{"description":"seven"}`},
	"workloads.scheduling.k8s.io": {
		object: `{spec: {podGroupTemplates: [{name: t, schedulingPolicy: {gang: {minCount: 2}}}]}}`,
		change: `{"spec":{"podGroupTemplates":[{"name":"t","schedulingPolicy":{"gang":{"minCount":3}}}]}}`,
	},
	"podgroups.scheduling.k8s.io": {
		object: `{spec: {schedulingPolicy: {gang: {minCount: 2}}}}`,
		change: `{"spec":{"schedulingPolicy":{"gang":{"minCount":3}}}}`,
	},
	"endpointslices.discovery.k8s.io": {object: `{addressType: IPv4, endpoints: [{addresses: [192.0.2.1]}], ports: [{port: 80}]}`},
	"runtimeclasses.node.k8s.io":      {object: `{handler: crun}`, change: `{"overhead":{"podFixed":{"memory":"10Mi"}}}`},
	"leases.coordination.k8s.io":      {object: `{spec: {holderIdentity: me}}`, change: `{"spec":{"leaseTransitions":1}}`},
	"services":                        {object: `{spec: {selector: {a: b}, ports: [{port: 80}]}}`, change: `{"spec":{"selector":{"a":"c"}}}`},
	"persistentvolumeclaims": {
		object: `{spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`,
		change: `{"spec":{"volumeName":"pv"}}`,
	},
	"persistentvolumes": {
		object: `{spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /data}}}`,
		change: `{"spec":{"persistentVolumeReclaimPolicy":"Delete"}}`,
	},
	"roles.rbac.authorization.k8s.io": {
		object: `{rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`, change: `{"rules":[]}`,
	},
	"clusterroles.rbac.authorization.k8s.io": {
		object: `{rules: [{nonResourceURLs: [/metrics], verbs: [get]}]}`, change: `{"rules":[]}`,
	},
	"rolebindings.rbac.authorization.k8s.io": {
		object: `{roleRef: {kind: Role, name: a}, subjects: [{kind: User, name: ann}]}`, change: `{"subjects":[]}`,
	},
	"clusterrolebindings.rbac.authorization.k8s.io": {
		object: `{roleRef: {kind: ClusterRole, name: a}, subjects: [{kind: ServiceAccount, name: b, namespace: c}]}`,
		change: `{"subjects":[]}`,
	},
	"storageclasses.storage.k8s.io": {object: `{provisioner: jobd.dev/local}`, change: `{"allowVolumeExpansion":true}`},
	"networkpolicies.networking.k8s.io": {
		object: `{spec: {podSelector: {}}}`, change: `{"spec":{"ingress":[{"from":[{"podSelector":{}}]}]}}`,
	},
	"resourcequotas":              {object: `{spec: {hard: {pods: "1"}}}`, change: `{"spec":{"hard":{"pods":"2"}}}`},
	"limitranges":                 {object: `{spec: {limits: [{type: Pod, max: {cpu: "1"}}]}}`, change: `{"spec":{"limits":[]}}`},
	"configmaps":                  {object: `{data: {a: b}}`, change: `{"data":{"a":"c"}}`},
	"secrets":                     {object: `{stringData: {a: b}}`, change: `{"data":{"a":"Yw=="}}`},
	"poddisruptionbudgets.policy": {object: `{spec: {minAvailable: 1, selector: {}}}`, change: `{"spec":{"minAvailable":2}}`},
}

// TestEveryKindHasEveryVerb takes an object of each kind through everything that clients do.
func TestEveryKindHasEveryVerb(t *testing.T) {
	ts := startServer(t)
	client, err := dynamic.NewForConfig(ts.config())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range scheme.Kinds() {
		t.Run(k.GroupResource().String(), func(t *testing.T) {
			example, ok := examples[k.GroupResource().String()]
			if !ok {
				t.Fatal("the test needs an example of it")
			}
			var objects dynamic.ResourceInterface = client.Resource(k.GroupVersion.WithResource(k.Resource))
			path := "/apis/" + k.GroupVersion.String()
			if k.GroupVersion.Group == "" {
				path = "/api/v1"
			}
			if k.Namespaced {
				objects = client.Resource(k.GroupVersion.WithResource(k.Resource)).Namespace("default")
				path += "/namespaces/default"
			}
			path += "/" + k.Resource
			named := func(name string) *unstructured.Unstructured {
				o := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(example.object), &o.Object); err != nil {
					t.Fatal(err)
				}
				o.SetAPIVersion(k.GroupVersion.String())
				o.SetKind(k.Name)
				o.SetName(name)
				o.SetLabels(map[string]string{"test": "yes"})
				return o
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			selected := metav1.ListOptions{LabelSelector: "test=yes"}

			watching, err := objects.Watch(ctx, selected)
			if err != nil {
				t.Fatal(err)
			}
			defer watching.Stop()
			next := func(want watch.EventType) {
				t.Helper()
				if e := <-watching.ResultChan(); e.Type != want {
					t.Fatalf("%s, not %s: %v", e.Type, want, e.Object)
				}
			}
			made, err := objects.Create(ctx, named("it"), metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			next(watch.Added)
			if made.GetUID() == "" || made.Object["metadata"].(map[string]any)["creationTimestamp"] == nil || len(made.GetManagedFields()) == 0 {
				t.Errorf("as it was created: %v", made)
			}
			if _, err := objects.Create(ctx, named("it"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
				t.Errorf("a second one: %v", err)
			}
			got, err := objects.Get(ctx, "it", metav1.GetOptions{})
			if err != nil || got.GetResourceVersion() != made.GetResourceVersion() {
				t.Fatalf("%v: %v", got, err)
			}
			for selector, want := range map[metav1.ListOptions]int{
				selected:                               1,
				{LabelSelector: "test=no"}:             0,
				{FieldSelector: "metadata.name=it"}:    1,
				{FieldSelector: "metadata.name=other"}: 0,
			} {
				if list, err := objects.List(ctx, selector); err != nil || len(list.Items) != want {
					t.Errorf("%v: %d, not %d: %v", selector, len(list.Items), want, err)
				}
			}
			if _, err := objects.List(ctx, metav1.ListOptions{FieldSelector: "no.such=field"}); !apierrors.IsBadRequest(err) {
				t.Errorf("a field that nothing can be selected by: %v", err)
			}

			got.SetAnnotations(map[string]string{"by": "update"})
			if _, err := objects.Update(ctx, got, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			next(watch.Modified)
			if _, err := objects.Update(ctx, made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("a stale write: %v", err)
			}
			mergeLike := `{"metadata":{"annotations":{"by":%q}}}`
			applied := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"it","annotations":{"by":"apply"}}}`, k.GroupVersion.String(), k.Name)
			for _, p := range []struct {
				kind types.PatchType
				body string
				by   string
			}{
				{types.MergePatchType, fmt.Sprintf(mergeLike, "merge"), "merge"},
				{types.StrategicMergePatchType, fmt.Sprintf(mergeLike, "strategic"), "strategic"},
				{types.JSONPatchType, `[{"op":"replace","path":"/metadata/annotations/by","value":"json"}]`, "json"},
				{types.ApplyPatchType, applied, "apply"},
			} {
				got, err := objects.Patch(ctx, "it", p.kind, []byte(p.body), metav1.PatchOptions{FieldManager: "test", Force: force(p.kind)})
				if err != nil {
					t.Fatalf("%s: %v", p.kind, err)
				}
				next(watch.Modified)
				if by := got.GetAnnotations()["by"]; by != p.by {
					t.Errorf("%s: %q", p.kind, by)
				}
			}
			if example.change != "" {
				if _, err := objects.Patch(ctx, "it", types.MergePatchType, []byte(example.change), metav1.PatchOptions{}); err != nil {
					t.Error(err)
				}
				next(watch.Modified)
			}

			var table metav1.Table
			text := ts.get(t, path+"/it", "application/json;as=Table;v=v1;g=meta.k8s.io")
			if err := json.Unmarshal([]byte(text), &table); err != nil || len(table.Rows) != 1 || len(table.Rows[0].Cells) != len(table.ColumnDefinitions) {
				t.Errorf("the table: %v: %s", err, text)
			}
			for _, encoding := range []string{"application/yaml", "application/vnd.kubernetes.protobuf"} {
				if (k.Name == "JobSet" || k.GroupVersion == kueue.GroupVersion) && encoding != "application/yaml" {
					continue // as of every kind that extends a cluster, there is none
				}
				if text := ts.get(t, path, encoding); !strings.Contains(text, k.Name+"List") {
					t.Errorf("%s: %s", encoding, text)
				}
			}

			if k.Name == "Namespace" {
				return // TestNamespaces covers how they are deleted
			}
			if k.Name == "PersistentVolumeClaim" {
				return // only the loop ends their protection: daemon/control's tests cover how they are deleted
			}
			unprotect := func(name string) { // volumes that are not in use are freed by the loop
				none := []byte(`{"metadata":{"finalizers":null}}`)
				if _, err := objects.Patch(ctx, name, types.MergePatchType, none, metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			unprotect("it")
			// deleting a Job orphans its pods by default, which takes the loop
			now := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
			if err := objects.Delete(ctx, "it", now); err != nil {
				t.Fatal(err)
			}
			if _, err := objects.Get(ctx, "it", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("after deletion: %v", err)
			}
			for _, name := range []string{"x", "y"} {
				if _, err := objects.Create(ctx, named(name), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				unprotect(name)
			}
			if err := objects.DeleteCollection(ctx, now, selected); err != nil {
				t.Fatal(err)
			}
			if list, err := objects.List(ctx, selected); err != nil || len(list.Items) != 0 {
				t.Errorf("%d are left: %v", len(list.Items), err)
			}
		})
	}
}
