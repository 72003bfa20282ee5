package handover

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

func job(uid types.UID, annotations map[string]string, finalizers ...string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", UID: uid, Annotations: annotations, Finalizers: finalizers}}
}

func TestNext(t *testing.T) {
	const to = "big"
	plain := job("a", nil)
	moving := job("a", map[string]string{batch.MovingAnnotation: `{"to":"big"}`})
	deleted := moving.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{}
	made := job("b", map[string]string{batch.MovedFromAnnotation: "a"}, "x/y", batch.MoveFinalizer)
	free := job("b", map[string]string{batch.MovedFromAnnotation: "a"})
	other := job("c", nil)
	ofAnother := job("d", map[string]string{batch.MovedFromAnnotation: "z"}, batch.MoveFinalizer)
	for _, c := range []struct {
		name        string
		here, there *batchv1.Job
		want        Step
		err         string
	}{
		{"nothing was done", plain, nil, Hold, ""},
		{"it is held", moving, nil, Make, ""},
		{"it was made", moving, made, End, ""},
		{"it was made, and freed by hand", moving, free, End, ""},
		{"it is being deleted here", deleted, made, Free, ""},
		{"it is gone here", nil, made, Free, ""},
		{"all was done", nil, free, Done, ""},
		{"all was done, and something holds the object here", deleted, free, Done, ""},
		{"there is none", nil, nil, Done, "neither here nor in big"},
		{"there is another, and none here", nil, other, Done, "was not moved"},
		{"there is another", plain, other, Done, "big has another Job"},
		{"another was made there after this one was held", moving, other, Release, "big has another Job"},
		{"one that was moved from here before has the name", plain, ofAnother, Done, "big has another Job"},
		{"it is being moved elsewhere", job("a", map[string]string{batch.MovingAnnotation: `{"to":"small"}`}), nil, Done, "being moved to small"},
		{"it is the same server", plain, plain, Done, "is the server from which"},
		{"it is gone here, and there by hand", deleted, nil, Done, "neither here nor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Next(c.here, c.there, to)
			if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s, %v; want %s, %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestCopy(t *testing.T) {
	j := job("u", map[string]string{"a": "b", batch.MovingAnnotation: `{"to":"big","suspended":false}`, lastApplied: "{}"}, "x/y")
	j.ResourceVersion, j.OwnerReferences = "7", []metav1.OwnerReference{{Name: "o"}}
	j.Spec.Suspend = ptr.To(true)
	j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: "u"}}
	j.Spec.Template.Labels = map[string]string{batchv1.ControllerUidLabel: "u", batchv1.JobNameLabel: "j", "controller-uid": "u", "job-name": "j", "app": "x"}
	j.Labels = j.Spec.Template.DeepCopy().Labels
	c := Copy(j)
	if *c.Spec.Suspend || len(c.Labels) != 1 || c.Spec.Selector != nil || len(c.Spec.Template.Labels) != 1 ||
		c.UID != "" || c.ResourceVersion != "" || len(c.OwnerReferences) > 0 {
		t.Errorf("%+v", c)
	}
	if got := fmt.Sprint(c.Annotations, c.Finalizers); got != "map[a:b jobd.dev/moved-from:u] [jobd.dev/moving]" {
		t.Error(got)
	}
	j.Annotations[batch.MovingAnnotation] = `{"to":"big","suspended":true}`
	j.Spec.ManualSelector = ptr.To(true)
	if c := Copy(j); !*c.Spec.Suspend || c.Spec.Selector == nil || len(c.Spec.Template.Labels) != 5 {
		t.Errorf("of one that was suspended, with a selector of its own: %+v", c.Spec)
	}
	if len(j.Spec.Template.Labels) != 5 || len(j.Labels) != 5 {
		t.Error("the Job itself was changed")
	}
}
