package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/storage"
)

// What a handler leaves alone when its request's time is over is counted until it ends, whatever it does.
func TestWorkIsCountedUntilItEnds(t *testing.T) {
	ts := startServer(t)
	served := ts.groups.served[schema.GroupVersion{Version: "v1"}]
	maps, parts := served["configmaps"].(rest.StandardStorage), served["pods/status"].(rest.Updater)
	ts.mustDo(t, "POST", "/api/v1/namespaces/default/pods", `{"metadata": {"name": "c"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`, 201)
	type during func(context.Context, runtime.Object) error
	update := func(by rest.Updater) func(context.Context, during) error {
		return func(ctx context.Context, d during) error {
			_, _, err := by.Update(ctx, "c", rest.DefaultUpdatedObjectInfo(nil, func(ctx context.Context, _, old runtime.Object) (runtime.Object, error) {
				return old.DeepCopyObject(), d(ctx, old)
			}), rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, false, &metav1.UpdateOptions{})
			return err
		}
	}
	for _, c := range []struct {
		name string
		do   func(context.Context, during) error
	}{
		{"a creation", func(ctx context.Context, d during) error {
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, rest.ValidateObjectFunc(d), &metav1.CreateOptions{})
			return err
		}},
		{"an update", update(maps)},
		{"an update of a part", update(parts)},
		{"a deletion", func(ctx context.Context, d during) error {
			_, _, err := maps.Delete(ctx, "c", rest.ValidateObjectFunc(d), &metav1.DeleteOptions{})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var work storage.Work
			ended, seen := false, false
			work.After(func() { ended = true })
			ctx := request.WithNamespace(storage.WithWork(t.Context(), &work), "default")
			err := c.do(ctx, func(context.Context, runtime.Object) error {
				work.Answered()
				seen = !ended
				return nil
			})
			if err != nil || !seen || !ended {
				t.Errorf("%v, counted: %v, ended: %v", err, seen, ended)
			}
			if err := c.do(ctx, func(context.Context, runtime.Object) error { return nil }); err == nil {
				t.Error("begun after the answer")
			}
		})
	}
}

func TestPatchesThatCompareMuch(t *testing.T) {
	ts := startServer(t)
	const path, form = "/api/v1/namespaces/default/configmaps/c", "application/strategic-merge-patch+json"
	finalizers := func(n int, of string) string {
		var all []string
		for i := range n {
			all = append(all, `"a.b/`+of+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676))+`"`)
		}
		return `{"metadata": {"name": "c", "finalizers": [` + strings.Join(all, ",") + `]}}`
	}
	ts.mustDo(t, "POST", "/api/v1/namespaces/default/configmaps", finalizers(3000, "x"), 201)
	// A CronJob is what kubectl changes of what has pods.
	const cron = "/apis/batch/v1/namespaces/default/cronjobs"
	env := func(n int, of, value string) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"name": "%s%d"%s}`, of, i, value))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	spec := func(container string) string {
		return `{"metadata": {"name": "c"}, "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", ` +
			`"containers": [` + container + `]}}}}}}`
	}
	ts.mustDo(t, "POST", cron, spec(`{"name": "c", "image": "i", "env": `+env(3000, "V", `, "value": "x"`)+`}`), 201)
	ordered := func(n int, value string) string {
		return spec(`{"name": "c", "env": ` + env(n, "V", `, "value": "`+value+`"`) + `, "$setElementOrder/env": ` + env(3000, "V", "") + `}`)
	}
	for _, c := range []struct {
		name, path, form, body string
		code                   int
	}{
		{"few", path, form, finalizers(10, "y"), 200},
		{"none", path, form, `{"metadata": {"labels": {"a": "b"}}}`, 200},
		{"others", path, form, finalizers(1900, "z"), 200},
		{"another form", path, "application/merge-patch+json", finalizers(2000, "z"), 200},
		{"one variable of 3,000", cron + "/c", form, ordered(1, "y"), 200},
		{"each of them", cron + "/c", form, ordered(3000, "z"), 200},
		{"others than those", cron + "/c", form, spec(`{"name": "c", "env": ` + env(4900, "W", "") +
			`, "$setElementOrder/env": ` + env(4900, "W", "") + `}`), 413},
		{"the same container again and again", cron + "/c", form, spec(strings.TrimSuffix(strings.Repeat(`{"name": "c", "env": []},`, 100), ",")), 413},
	} {
		t.Run(c.name, func(t *testing.T) {
			if code, said := ts.do(t, "PATCH", c.path, c.form, c.body); code != c.code {
				t.Errorf("%d %.300s", code, said)
			}
		})
	}
}
