package conditions

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func at(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(seconds, 0)) }

func TestSet(t *testing.T) {
	first := corev1.PodCondition{Type: "A", Status: "True", Reason: "R", Message: "M", LastTransitionTime: at(1)}
	for _, tc := range []struct {
		name  string
		edit  func(*corev1.PodCondition)
		news  bool
		since int64
	}{
		{"nothing new", func(*corev1.PodCondition) {}, false, 1},
		{"a reason is new", func(c *corev1.PodCondition) { c.Reason = "S" }, true, 1},
		{"a message is new", func(c *corev1.PodCondition) { c.Message = "N" }, true, 1},
		{"a status is a transition", func(c *corev1.PodCondition) { c.Status = "False" }, true, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := []corev1.PodCondition{{Type: "B"}, first}
			c := first
			c.LastTransitionTime = at(2)
			tc.edit(&c)
			if got := Set(&list, c); got != tc.news {
				t.Errorf("news: %v", got)
			}
			got := Find(list, c.Type)
			if got.Status != c.Status || got.Reason != c.Reason || got.Message != c.Message || len(list) != 2 {
				t.Errorf("%+v", list)
			}
			if since := at(tc.since); !got.LastTransitionTime.Equal(&since) {
				t.Errorf("since %v", got.LastTransitionTime)
			}
		})
	}
}

func TestSetAppendsWhatIsNotThere(t *testing.T) {
	var namespace []corev1.NamespaceCondition
	if !Set(&namespace, corev1.NamespaceCondition{Type: "A"}) || len(namespace) != 1 || Find(namespace, "B") != nil {
		t.Errorf("%+v", namespace)
	}
}

func TestSetCopyLeavesTheOldListAlone(t *testing.T) {
	old := append(make([]batchv1.JobCondition, 0, 4), batchv1.JobCondition{Type: "A", Status: "True"})
	list := old
	if !SetCopy(&list, batchv1.JobCondition{Type: "A", Status: "False"}) || !SetCopy(&list, batchv1.JobCondition{Type: "B"}) {
		t.Error("nothing is new")
	}
	if old[0].Status != "True" || old[:2][1].Type != "" || list[0].Status != "False" || len(list) != 2 {
		t.Errorf("%+v became %+v", old[:2], list)
	}
	if same := list; SetCopy(&list, list[1]) || &same[0] != &list[0] {
		t.Error("a list was copied for nothing")
	}
}
