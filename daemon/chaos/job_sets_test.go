package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/jobset"
	"github.com/jobd/jobd/daemon/controltest"
)

const jobSetsPath = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"

// createJobSet makes a JobSet whose groups are random Jobs, which may wait for each other and begin anew together.
func (u *universe) createJobSet(r *rand.Rand) {
	js := &jobsetv1.JobSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "jobset.x-k8s.io/v1alpha2", Kind: "JobSet"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "set-"},
	}
	for i := range 1 + r.IntN(3) {
		g := jobsetv1.ReplicatedJob{Name: fmt.Sprint("g", i), Replicas: 1 + r.Int32N(2)}
		j := randomJob(r)
		j.Spec.TTLSecondsAfterFinished = nil
		g.Template = batchv1.JobTemplateSpec{Spec: j.Spec}
		if i > 0 && r.IntN(2) == 0 {
			g.DependsOn = []jobsetv1.DependsOn{{
				Name: fmt.Sprint("g", i-1), Status: []jobsetv1.DependsOnStatus{jobsetv1.DependencyReady, jobsetv1.DependencyComplete}[r.IntN(2)],
			}}
		}
		js.Spec.ReplicatedJobs = append(js.Spec.ReplicatedJobs, g)
	}
	if r.IntN(3) == 0 {
		startTogether(js)
	}
	if r.IntN(2) == 0 {
		js.Spec.FailurePolicy = &jobsetv1.FailurePolicy{
			MaxRestarts:     r.Int32N(4),
			RestartStrategy: []jobsetv1.JobSetRestartStrategy{jobsetv1.Recreate, jobsetv1.BlockingRecreate}[r.IntN(2)],
		}
	}
	body, err := json.Marshal(js)
	if err != nil {
		u.T.Fatal(err)
	}
	u.said(u.client.BatchV1().RESTClient().Post().AbsPath(jobSetsPath).SetHeader("Content-Type", "application/json").Body(body).
		Do(context.Background()).Error())
}

// startTogether makes a gang of a JobSet that the machine has room for.
func startTogether(js *jobsetv1.JobSet) {
	js.Annotations = map[string]string{jobset.GangAnnotation: "true"}
	for i := range js.Spec.ReplicatedJobs {
		spec := &js.Spec.ReplicatedJobs[i].Template.Spec
		spec.Template.Spec.Containers = controltest.Asking("500m")
		spec.Parallelism = ptr.To(min(*spec.Parallelism, 2))
	}
}

// jobSets returns the names of those that there are.
func (u *universe) jobSets() (names []string) {
	raw, err := u.client.BatchV1().RESTClient().Get().AbsPath(jobSetsPath).DoRaw(context.Background())
	var list metav1.PartialObjectMetadataList
	if u.said(err); err == nil {
		err = json.Unmarshal(raw, &list)
	}
	if err != nil {
		return nil
	}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func (u *universe) suspendJobSet(name string, suspend bool) {
	u.said(u.client.BatchV1().RESTClient().Patch(types.MergePatchType).AbsPath(jobSetsPath, name).
		Body(fmt.Appendf(nil, `{"spec":{"suspend":%t}}`, suspend)).Do(context.Background()).Error())
}

func (u *universe) deleteJobSet(name string) error {
	return u.client.BatchV1().RESTClient().Delete().AbsPath(jobSetsPath, name).Do(context.Background()).Error()
}
