package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// TestWhatATemplateNamesThatIsNotThere: all of it is told when the object is created, not one thing after the other.
func TestWhatATemplateNamesThatIsNotThere(t *testing.T) {
	ts := startServer(t)
	ts.account(t, "here", "")
	w := &warned{}
	config := ts.config()
	config.WarningHandler = w
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	mustMake(t, c.CoreV1().Nodes(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "another"}})
	for i, tc := range []struct {
		name, fields string
		warns        []string // by field, kind and name
		refused      bool     // as a pod
	}{
		{"nothing", `{}`, nil, false},
		{"what is there", `{"serviceAccountName":"here","priorityClassName":"system-node-critical"}`, nil, false},
		{"the default account", `{"serviceAccountName":"default"}`, nil, false},
		{"a node that is there", `{"nodeName":"another"}`, nil, false},
		{"a ServiceAccount", `{"serviceAccountName":"gone"}`, []string{`serviceAccountName: there is no ServiceAccount "gone"`}, true},
		{"a PriorityClass", `{"priorityClassName":"high"}`, []string{`priorityClassName: there is no PriorityClass "high"`}, true},
		{"a RuntimeClass", `{"runtimeClassName":"kata"}`, []string{`runtimeClassName: there is no RuntimeClass "kata"`}, true},
		{"a node", `{"nodeName":"elsewhere"}`, []string{`nodeName: there is no Node "elsewhere"`}, false},
		{"all at once", `{"serviceAccountName":"gone","priorityClassName":"high","runtimeClassName":"kata","nodeName":"elsewhere"}`, []string{
			`serviceAccountName: there is no ServiceAccount "gone"`, `priorityClassName: there is no PriorityClass "high"`,
			`runtimeClassName: there is no RuntimeClass "kata"`, `nodeName: there is no Node "elsewhere"`,
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(fmt.Sprint("p", i), "c")
			if err := json.Unmarshal([]byte(tc.fields), &pod.Spec); err != nil {
				t.Fatal(err)
			}
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}}
			job.Spec.Template.Spec = *pod.Spec.DeepCopy()
			job.Spec.Template.Spec.RestartPolicy = "Never"
			cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}}
			cron.Spec.Schedule, cron.Spec.JobTemplate.Spec = "@hourly", *job.Spec.DeepCopy()
			want := func(path string) (lines []string) {
				for _, text := range tc.warns {
					lines = append(lines, path+"."+text)
				}
				return lines
			}
			check := func(what string, want []string) {
				t.Helper()
				if len(w.said) != len(want) {
					t.Errorf("%s: %q, want %q", what, w.said, want)
				} else {
					for i := range want {
						if !strings.HasPrefix(w.said[i], want[i]) {
							t.Errorf("%s: %q, want %q", what, w.said[i], want[i])
						}
					}
				}
				w.said = nil
			}
			w.said = nil
			mustMake(t, c.BatchV1().Jobs("default"), job)
			check("Job", want("spec.template.spec"))
			mustMake(t, c.BatchV1().CronJobs("default"), cron)
			check("CronJob", want("spec.jobTemplate.spec.template.spec"))
			switch _, err := c.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); {
			case tc.refused != apierrors.IsForbidden(err):
				t.Errorf("Pod: %v", err)
			case !tc.refused:
				check("Pod", want("spec"))
			}

			w.said = nil
			if _, err := c.BatchV1().CronJobs("default").Patch(t.Context(), cron.Name, types.MergePatchType,
				[]byte(`{"spec":{"schedule":"@daily"}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			check("a change of something else", nil)
			if _, err := c.BatchV1().CronJobs("default").Patch(t.Context(), cron.Name, types.MergePatchType,
				[]byte(`{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"serviceAccountName":"new","serviceAccount":"new"}}}}}}`),
				metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			check("a change of one", []string{`spec.jobTemplate.spec.template.spec.serviceAccountName: there is no ServiceAccount "new"`})
		})
	}
}
