package notices_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/daemon/requests"
	"github.com/jobd/jobd/runtime/simulated"
)

// setOf is the spec of a JobSet of two groups, of which the second ends with an exit code after a minute.
func setOf(fields, code string) string {
	group := `{name: %s, replicas: 2, template: {%s spec: {backoffLimit: 0, template: {metadata: {annotations: {%s: %s, %s: "%s"}}, spec: {
		restartPolicy: Never}}}}}`
	return "{" + fields + "replicatedJobs: [" + fmt.Sprintf(group, "a", "", simulated.Duration, "30s", simulated.ExitCode, "0") + ", " +
		fmt.Sprintf(group, "b", `metadata: {labels: {x: "y"}},`, simulated.Duration, "1m", simulated.ExitCode, code) + "]}"
}

// deleteSet deletes a JobSet after its Jobs, so that it is decided on while it goes.
func deleteSet(w *controltest.World) {
	w.T.Helper()
	w.EditJobSet("s", func(js *jobsetv1.JobSet) {
		storage.MarkDeleted(js, time.Now(), 0)
		storage.SetPropagation(js, metav1.DeletePropagationForeground)
	})
	time.Sleep(time.Minute)
	if js := w.JobSet("s"); js != nil {
		w.T.Errorf("it is still there: %v", js.Finalizers)
	}
}

// A JobSet is told of once, however many of its Jobs fail and however often it begins anew, also over restarts of the daemon; its Jobs
// are not. The next of its name that succeeds has recovered.
func TestAJobSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		asked := []string{notices.ReceiversAnnotation, "ops,watch"}
		w.CreateJobSet("s", setOf("failurePolicy: {maxRestarts: 2}, ", "1"), asked...)
		for range 4 {
			time.Sleep(time.Minute)
			w.Stop()
			w.Start()
		}
		time.Sleep(10 * time.Minute)
		expect(w, "one that fails", "ops failed s", "watch started s", "watch failed s")
		w.Stop()
		w.Start()
		w.EditJobSet("s", func(js *jobsetv1.JobSet) { js.Labels = map[string]string{"x": "y"} })
		expect(w, "nothing new of it", "ops failed s", "watch started s", "watch failed s")
		deleteSet(w)
		w.CreateJobSet("s", setOf("", "0"), asked...)
		time.Sleep(10 * time.Minute)
		want := []string{"ops failed s", "ops recovered s", "watch started s", "watch recovered s"}
		got, _ := written(w)
		if len(got) != len(want) {
			t.Errorf("the next one succeeds: %q, want %q", got, want)
		}
		deleteSet(w)
		w.CreateJobSet("s", setOf("", "0"), asked...)
		time.Sleep(10 * time.Minute)
		if all, _ := written(w); len(all) != len(got) { // the pings of a run take the place of those before
			t.Errorf("and another: %q", all)
		}
	})
}

// What its namespace asks for holds for the JobSet, not for each of its Jobs, of which those are told of that say so themselves.
func TestWhoAsksForAJobSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
		ns.Annotations = asks(notices.ReceiversAnnotation, "ops", notices.OnAnnotation, "finished")
		w.Put(objects.Key(objects.Namespaces, ns), ns)
		w.CreateJobSet("s", setOf("", "0"))
		time.Sleep(10 * time.Minute)
		expect(w, "by the namespace", "ops finished s")
		w.CreateJobSet("quiet", setOf("", "1"), notices.ReceiversAnnotation, "")
		time.Sleep(10 * time.Minute)
		expect(w, "one that wants none", "ops finished s")
		own := fmt.Sprintf(`{replicatedJobs: [{name: a, template: {metadata: {annotations: {%s: ops}}, spec: {}}}]}`, notices.ReceiversAnnotation)
		w.CreateJobSet("own", own, notices.ReceiversAnnotation, "")
		time.Sleep(10 * time.Minute)
		expect(w, "Jobs that ask", "ops finished s", "ops finished own-a-0")
	})
}

// One that waits is told of once, also over a restart, and that it has started late when it has; one that is suspended does not wait.
func TestAJobSetThatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.End()
		w.Allocatable = requests.Resources{"cpu": 1000}
		w.Stop()
		w.Start()
		asked := []string{notices.ReceiversAnnotation, "ops", notices.OnAnnotation, "waits,started-late"}
		w.CreateJobSet("held", setOf("suspend: true, ", "0"), asked...)
		w.Bare("before", "1", "3h", nil)
		spec := `{replicatedJobs: [{name: a, template: {spec: {template: {spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}}}}]}`
		w.CreateJobSet("s", spec, asked...)
		time.Sleep(9 * time.Minute)
		expect(w, "too early")
		for range 3 {
			time.Sleep(10 * time.Minute)
			expect(w, "it waits", "ops waits s")
			w.Stop()
			w.Start()
		}
		time.Sleep(3 * time.Hour)
		expect(w, "it has started", "ops waits s", "ops started-late s")
		w.EditJobSet("held", func(js *jobsetv1.JobSet) { js.Spec.Suspend = ptr.To(false) })
		time.Sleep(time.Hour)
		expect(w, "resumed it starts at once", "ops waits s", "ops started-late s")
	})
}
