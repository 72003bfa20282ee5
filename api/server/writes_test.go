package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestADryRunOfAnyWriteLeavesNothing tries every verb that writes: it answers as the write itself would, and not even a
// version is used up.
func TestADryRunOfAnyWriteLeavesNothing(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t)
	jobs, pods, configs := c.BatchV1().Jobs("default"), c.CoreV1().Pods("default"), c.CoreV1().ConfigMaps("default")
	made := mustMake(t, jobs, newJob("a"))
	mustMake(t, pods, newPod("p", "c"))
	ts.bind(t, "p", "node")
	mustMake(t, c.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}})
	dry := []string{metav1.DryRunAll}
	before := ts.store.Version()
	for name, write := range map[string]func() error{
		"create": func() error {
			got, err := jobs.Create(t.Context(), newJob("b"), metav1.CreateOptions{DryRun: dry})
			if err == nil && (got.UID == "" || got.Spec.Selector == nil) {
				err = fmt.Errorf("not as it would be: %+v", got)
			}
			return err
		},
		"create with a generated name": func() error {
			job := newJob("")
			job.GenerateName = "g-"
			got, err := jobs.Create(t.Context(), job, metav1.CreateOptions{DryRun: dry})
			if err == nil && !strings.HasPrefix(got.Name, "g-") {
				err = fmt.Errorf("name %q", got.Name)
			}
			return err
		},
		"update": func() error {
			changed := made.DeepCopy()
			changed.Spec.Parallelism = ptr.To[int32](7)
			got, err := jobs.Update(t.Context(), changed, metav1.UpdateOptions{DryRun: dry})
			if err == nil && (*got.Spec.Parallelism != 7 || got.Generation != 2) {
				err = fmt.Errorf("not as it would be: %+v", got)
			}
			return err
		},
		"update of the status": func() error {
			changed := made.DeepCopy()
			changed.Status.Active = 3
			_, err := jobs.UpdateStatus(t.Context(), changed, metav1.UpdateOptions{DryRun: dry})
			return err
		},
		"patch": func() error {
			for kind, body := range map[types.PatchType]string{
				types.MergePatchType:          `{"spec":{"parallelism":5}}`,
				types.StrategicMergePatchType: `{"spec":{"parallelism":5}}`,
				types.JSONPatchType:           `[{"op":"replace","path":"/spec/parallelism","value":5}]`,
				types.ApplyPatchType:          `{"apiVersion":"batch/v1","kind":"Job","spec":{"parallelism":5}}`,
			} {
				got, err := jobs.Patch(t.Context(), "a", kind, []byte(body), metav1.PatchOptions{DryRun: dry, FieldManager: "m", Force: force(kind)})
				if err != nil || *got.Spec.Parallelism != 5 {
					return fmt.Errorf("%s: %w", kind, err)
				}
			}
			return nil
		},
		"apply of what is not there": func() error {
			_, err := configs.Patch(
				t.Context(), "new", types.ApplyPatchType,
				[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"},"data":{"a":"b"}}`),
				metav1.PatchOptions{DryRun: dry, FieldManager: "m"},
			)
			return err
		},
		"delete": func() error { return jobs.Delete(t.Context(), "a", metav1.DeleteOptions{DryRun: dry}) },
		"delete in the foreground": func() error {
			return jobs.Delete(t.Context(), "a", metav1.DeleteOptions{DryRun: dry, PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
		},
		"delete of a pod with grace": func() error { return pods.Delete(t.Context(), "p", metav1.DeleteOptions{DryRun: dry}) },
		"delete of a collection": func() error {
			return pods.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{})
		},
		"delete of a namespace": func() error {
			return c.CoreV1().Namespaces().Delete(t.Context(), "team", metav1.DeleteOptions{DryRun: dry})
		},
		"finalize": func() error {
			_, err := c.CoreV1().Namespaces().Finalize(
				t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}, metav1.UpdateOptions{DryRun: dry},
			)
			return err
		},
		"eviction": func() error {
			return pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}, DeleteOptions: &metav1.DeleteOptions{DryRun: dry}})
		},
		"eviction, asked for in the URL": func() error {
			code, text := ts.do(
				t, "POST", "/api/v1/namespaces/default/pods/p/eviction?dryRun=All", "application/json",
				`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`,
			)
			if code != 201 {
				return fmt.Errorf("%d: %s", code, text)
			}
			return nil
		},
	} {
		if err := write(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if now := ts.store.Version(); now != before {
			t.Errorf("%s has written something", name)
			before = now
		}
	}
	for _, refused := range []func() error{
		func() error {
			_, err := jobs.Create(t.Context(), newJob("a"), metav1.CreateOptions{DryRun: dry})
			return err
		},
		func() error {
			_, err := jobs.Create(t.Context(), newJob("Not A Name"), metav1.CreateOptions{DryRun: dry})
			return err
		},
		func() error { return jobs.Delete(t.Context(), "nope", metav1.DeleteOptions{DryRun: dry}) },
		func() error {
			return jobs.Delete(t.Context(), "a", metav1.DeleteOptions{DryRun: dry, Preconditions: &metav1.Preconditions{UID: ptr.To[types.UID]("other")}})
		},
		func() error {
			return jobs.Delete(t.Context(), "a", metav1.DeleteOptions{DryRun: []string{"Some"}})
		},
	} {
		if refused() == nil {
			t.Error("a dry run of what is refused succeeds")
		}
	}
	if ts.store.Version() != before {
		t.Error("a refused dry run has written something")
	}
}

// TestPreconditions of each verb that has them: a client that is late, or means another object, is told so.
func TestPreconditions(t *testing.T) {
	ts := startServer(t)
	jobs := ts.client(t).BatchV1().Jobs("default")
	other, stale := ptr.To[types.UID]("other"), ptr.To("1")
	now := ptr.To(metav1.DeletePropagationBackground)
	make := func() *batchv1.Job { return mustMake(t, jobs, newJob("a")) }
	made := make()
	patch := func(kind types.PatchType, meta string) error {
		body := `{"metadata":{` + meta + `,"labels":{"x":"y"}}}`
		if kind == types.ApplyPatchType {
			body = `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a",` + meta + `,"labels":{"x":"y"}}}`
		}
		_, err := jobs.Patch(t.Context(), "a", kind, []byte(body), metav1.PatchOptions{FieldManager: "m"})
		return err
	}
	for name, write := range map[string]func() error{
		"update of another": func() error {
			changed := made.DeepCopy()
			changed.UID, changed.ResourceVersion = *other, ""
			_, err := jobs.Update(t.Context(), changed, metav1.UpdateOptions{})
			return err
		},
		"late update": func() error {
			changed := made.DeepCopy()
			changed.ResourceVersion = *stale
			_, err := jobs.Update(t.Context(), changed, metav1.UpdateOptions{})
			return err
		},
		"late update of the status": func() error {
			changed := made.DeepCopy()
			changed.ResourceVersion = *stale
			_, err := jobs.UpdateStatus(t.Context(), changed, metav1.UpdateOptions{})
			return err
		},
		"late merge patch":           func() error { return patch(types.MergePatchType, `"resourceVersion":"1"`) },
		"late strategic merge patch": func() error { return patch(types.StrategicMergePatchType, `"resourceVersion":"1"`) },
		"late apply":                 func() error { return patch(types.ApplyPatchType, `"resourceVersion":"1"`) },
		"apply to another that is gone": func() error {
			_, err := jobs.Patch(
				t.Context(), "gone", types.ApplyPatchType,
				[]byte(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"gone","uid":"other"}}`),
				metav1.PatchOptions{FieldManager: "m"},
			)
			return err
		},
		"deletion of another": func() error {
			return jobs.Delete(t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: now, Preconditions: &metav1.Preconditions{UID: other}})
		},
		"late deletion": func() error {
			return jobs.Delete(t.Context(), "a", metav1.DeleteOptions{PropagationPolicy: now, Preconditions: &metav1.Preconditions{ResourceVersion: stale}})
		},
		"late deletion in the foreground": func() error {
			return jobs.Delete(
				t.Context(), "a",
				metav1.DeleteOptions{
					PropagationPolicy: ptr.To(metav1.DeletePropagationForeground),
					Preconditions:     &metav1.Preconditions{UID: &made.UID, ResourceVersion: stale},
				},
			)
		},
	} {
		if err := write(); !apierrors.IsConflict(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := jobs.Get(t.Context(), "a", metav1.GetOptions{}); err != nil || got.ResourceVersion != made.ResourceVersion {
		t.Fatalf("something was written: %v: %v", got, err)
	}
	for _, kind := range []types.PatchType{types.ApplyPatchType, types.MergePatchType} {
		if err := patch(kind, `"uid":"other"`); !apierrors.IsInvalid(err) {
			t.Errorf("%s of another: %v", kind, err)
		}
	}
	code, text := ts.do(
		t, "PATCH", "/apis/batch/v1/namespaces/default/jobs/a", "application/json-patch+json",
		`[{"op":"test","path":"/metadata/resourceVersion","value":"1"},{"op":"add","path":"/metadata/labels/x","value":"y"}]`,
	)
	if code != http.StatusUnprocessableEntity {
		t.Errorf("a JSON patch whose test fails: %d: %s", code, text)
	}
	err := jobs.Delete(
		t.Context(), "a",
		metav1.DeleteOptions{PropagationPolicy: now, Preconditions: &metav1.Preconditions{UID: &made.UID, ResourceVersion: &made.ResourceVersion}},
	)
	if err != nil {
		t.Errorf("all is as it should be: %v", err)
	}
	if again := make(); again.UID == made.UID {
		t.Error("a new object has the old one's uid")
	}
}

// TestApplySharesAnObject follows who owns which field through applies, conflicts, force, and giving fields up.
func TestApplySharesAnObject(t *testing.T) {
	ts := startServer(t)
	c := ts.client(t).CoreV1().ConfigMaps("default")
	apply := func(manager, data string, force bool) (*corev1.ConfigMap, error) {
		return c.Patch(
			t.Context(), "shared", types.ApplyPatchType,
			[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared"},"data":`+data+`}`),
			metav1.PatchOptions{FieldManager: manager, Force: &force},
		)
	}
	must := func(cm *corev1.ConfigMap, err error) *corev1.ConfigMap {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return cm
	}
	owned := func(cm *corev1.ConfigMap) map[string]string {
		owners := map[string]string{}
		for _, m := range cm.ManagedFields {
			var fields struct {
				Data map[string]any `json:"f:data"`
			}
			if err := json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields); err != nil {
				t.Fatal(err)
			}
			if m.APIVersion != "v1" || m.FieldsType != "FieldsV1" || m.Time == nil {
				t.Errorf("%+v", m)
			}
			for name := range fields.Data {
				if name != "." {
					owners[name] += fmt.Sprintf("%s by %s;", m.Manager, m.Operation)
				}
			}
		}
		return owners
	}
	is := func(cm *corev1.ConfigMap, want map[string]string) {
		t.Helper()
		if got := fmt.Sprint(owned(cm)); got != fmt.Sprint(want) {
			t.Errorf("owned: %s, want %v", got, want)
		}
	}
	const one, two, edit = "one by Apply;", "two by Apply;", "edit by Update;"
	is(must(apply("one", `{"a":"1","b":"1"}`, false)), map[string]string{"f:a": one, "f:b": one})
	is(must(apply("two", `{"b":"1","c":"2"}`, false)), map[string]string{"f:a": one, "f:b": one + two, "f:c": two}) // the same value is no conflict
	_, err := apply("two", `{"a":"2"}`, false)
	if !apierrors.IsConflict(err) {
		t.Fatalf("another's field: %v", err)
	}
	cause := err.(apierrors.APIStatus).Status().Details.Causes
	if len(cause) != 1 || cause[0].Type != metav1.CauseTypeFieldManagerConflict || cause[0].Field != ".data.a" || cause[0].Message != `conflict with "one"` {
		t.Errorf("%+v", cause)
	}
	taken := must(apply("two", `{"a":"2","b":"1","c":"2"}`, true))
	is(taken, map[string]string{"f:a": two, "f:b": one + two, "f:c": two})
	given := must(apply("two", `{"a":"2"}`, false))
	is(given, map[string]string{"f:a": two, "f:b": one})
	if _, ok := given.Data["c"]; ok || given.Data["b"] != "1" {
		t.Errorf("a field that nobody owns any more goes, one that another owns stays: %v", given.Data)
	}
	edited := must(c.Patch(t.Context(), "shared", types.MergePatchType, []byte(`{"data":{"b":"9"}}`), metav1.PatchOptions{FieldManager: "edit"}))
	is(edited, map[string]string{"f:a": two, "f:b": edit})
	if _, err := apply("one", `{"b":"1"}`, false); !apierrors.IsConflict(err) {
		t.Errorf("what was edited since: %v", err)
	}
	for what, body := range map[string]string{
		"managed fields of its own": `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared","managedFields":[{"manager":"x"}]}}`,
		"another kind":              `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"shared"}}`,
		"another name":              `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other"}}`,
		"no kind":                   `{"metadata":{"name":"shared"}}`,
	} {
		if _, err := c.Patch(
			t.Context(), "shared", types.ApplyPatchType, []byte(body), metav1.PatchOptions{FieldManager: "one"},
		); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := c.Patch(
		t.Context(), "shared", types.ApplyPatchType,
		[]byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared"}}`), metav1.PatchOptions{},
	); !apierrors.IsInvalid(err) {
		t.Errorf("nobody's apply: %v", err)
	}
	// Clients can choose to forget all owners.
	forgotten := must(c.Patch(t.Context(), "shared", types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`), metav1.PatchOptions{}))
	if len(forgotten.ManagedFields) != 0 {
		t.Errorf("%+v", forgotten.ManagedFields)
	}
}

// TestFieldValidationOfEveryWrite sends a field that does not exist, and one twice, by each verb.
func TestFieldValidationOfEveryWrite(t *testing.T) {
	ts := startServer(t)
	mustMake(t, ts.client(t).BatchV1().Jobs("default"), newJob("a"))
	mustMake(t, ts.client(t).CoreV1().ConfigMaps("default"), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
	const path = "/apis/batch/v1/namespaces/default/jobs"
	unknown := strings.Replace(jobJSON("a"), `"suspend"`, `"nope":1,"suspend"`, 1)
	twice := strings.Replace(jobJSON("a"), `"suspend":true`, `"suspend":true,"suspend":true`, 1)
	for _, tc := range []struct {
		what, method, path, contentType, body, says string
		strictOnly                                  bool // there are no warnings: apply always refuses what it does not know
	}{
		{"create", "POST", path, "application/json", strings.Replace(unknown, `"name":"a"`, `"name":"b"`, 1), `unknown field "spec.nope"`, false},
		{"create twice", "POST", path, "application/json", strings.Replace(twice, `"name":"a"`, `"name":"b"`, 1), `duplicate field "spec.suspend"`, false},
		{"create as YAML", "POST", path, "application/yaml", strings.Replace(unknown, `"name":"a"`, `"name":"b"`, 1), `unknown field "spec.nope"`, false},
		{"update", "PUT", "/api/v1/namespaces/default/configmaps/c", "application/json", `{"metadata":{"name":"c"},"nope":1}`, `unknown field "nope"`, false},
		{"merge patch", "PATCH", path + "/a", "application/merge-patch+json", `{"spec":{"nope":1}}`, `unknown field "spec.nope"`, false},
		{
			"merge patch twice", "PATCH", path + "/a", "application/merge-patch+json", `{"spec":{"suspend":true,"suspend":true}}`,
			`duplicate field "spec.suspend"`, false,
		},
		{"strategic merge patch", "PATCH", path + "/a", "application/strategic-merge-patch+json", `{"spec":{"nope":1}}`, `unknown field "spec.nope"`, false},
		{"JSON patch", "PATCH", path + "/a", "application/json-patch+json", `[{"op":"add","path":"/spec/nope","value":1}]`, `unknown field "spec.nope"`, false},
		{"apply", "PATCH", path + "/a?fieldManager=m&force=true", "application/apply-patch+yaml", unknown, `.spec.nope: field not declared in schema`, true},
	} {
		for _, mode := range []string{"Strict", "Warn", "Ignore", ""} {
			t.Run(tc.what+" "+mode, func(t *testing.T) {
				separator := "?"
				if strings.Contains(tc.path, "?") {
					separator = "&"
				}
				r, err := http.NewRequestWithContext(
					t.Context(), tc.method, "http://jobd"+tc.path+separator+"dryRun=All&fieldValidation="+mode,
					strings.NewReader(tc.body),
				)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Content-Type", tc.contentType)
				tr := &http.Transport{DialContext: ts.config().Dial}
				defer tr.CloseIdleConnections()
				resp, err := tr.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				var status metav1.Status
				_ = json.NewDecoder(resp.Body).Decode(&status)
				warning := strings.ReplaceAll(resp.Header.Get("Warning"), `\"`, `"`)
				refused := mode == "Strict" || tc.strictOnly
				if refused != (resp.StatusCode == http.StatusBadRequest || resp.StatusCode == http.StatusUnprocessableEntity) ||
					refused && !strings.Contains(status.Message, tc.says) {
					t.Errorf("%d: %s", resp.StatusCode, status.Message)
				}
				if warned := strings.Contains(warning, tc.says); warned != (!refused && mode != "Ignore") {
					t.Errorf("warning: %q", warning)
				}
			})
		}
	}
}

// TestPatchesThatCannotBeApplied are refused as the client's fault, also where the library that applies them panics.
func TestPatchesThatCannotBeApplied(t *testing.T) {
	ts := startServer(t)
	mustMake(t, ts.client(t).BatchV1().Jobs("default"), newJob("a"))
	for _, tc := range []struct {
		kind types.PatchType
		body string
	}{
		{types.JSONPatchType, `[{"op":"replace","path":""}]`},
		{types.JSONPatchType, `[{"op":"test","path":""}]`},
		{types.JSONPatchType, `[{"op":"add","path":""}]`},
		{types.JSONPatchType, `[{"op":"replace","path":"","value":null}]`},
		{types.JSONPatchType, `[{"op":"replace","path":"","value":[]}]`},
		{types.JSONPatchType, `[{"op":"remove","path":""}]`},
		{types.JSONPatchType, `[{"op":"move","path":"/metadata"}]`},
		{types.JSONPatchType, `[{"op":"copy","from":"/nope","path":"/metadata"}]`},
		{types.JSONPatchType, `[{"op":"add","path":"/spec/template/spec/containers/99999999999","value":{}}]`},
		{types.JSONPatchType, `[null]`},
		{types.JSONPatchType, `[{}]`},
		{types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"$patch":"nope"}]}}}}`},
		{types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"containers":[{"image":"x"}]}}}}`},
		{types.StrategicMergePatchType, `{"metadata":{"$patch":1}}`},
		{types.StrategicMergePatchType, `{"spec":{"template":{"spec":{"$setElementOrder/containers":"x"}}}}`},
		{types.StrategicMergePatchType, `[]`},
		{types.MergePatchType, `[]`},
		{types.MergePatchType, `null`},
		{types.MergePatchType, `{"metadata":null}`},
		{types.MergePatchType, `{"spec":"x"}`},
		{types.ApplyPatchType, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":{"template":{"spec":{"containers":[{"image":"x"}]}}}}`},
		{types.ApplyPatchType, `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"a"},"spec":[]}`},
		{types.ApplyPatchType, `x`},
	} {
		code, text := ts.do(t, "PATCH", "/apis/batch/v1/namespaces/default/jobs/a?fieldManager=m", string(tc.kind), tc.body)
		if code < 400 || code >= 500 {
			t.Errorf("%s %s: %d: %.300s", tc.kind, tc.body, code, text)
		}
	}
	if strings.Contains(ts.log.String(), "panic") {
		t.Error(ts.log)
	}
}
