package notify

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/notices"
)

// CronJobOverdue returns the notice of a CronJob of which no Job has succeeded in time.
func CronJobOverdue(cj *batchv1.CronJob, due, now time.Time) Notice {
	n := Notice{
		ID: newID(cj.UID, "/", notices.Overdue, "/", due.Unix()), Kind: notices.Overdue, At: now,
		Object: Object{Kind: "CronJob", Namespace: cj.Namespace, Name: cj.Name, UID: string(cj.UID)},
		Help:   "jobctl why cronjobs/" + cj.Name + " -n " + cj.Namespace,
	}
	n.Message = overdue(notices.Every(cj.Annotations), cj.Status.LastSuccessfulTime, now)
	if ptr.Deref(cj.Spec.Suspend, false) {
		n.Message += " It is suspended."
	}
	return n
}

// JobsOverdue returns the notice of Jobs of one name of which none has succeeded in time.
func JobsOverdue(namespace, name string, m Memory, now time.Time) Notice {
	n := Notice{
		ID: newID(namespace, "/", name, "/", notices.Overdue, "/", m.Since.UnixNano()), Kind: notices.Overdue, At: now,
		Object: Object{Kind: "Job", Namespace: namespace, Name: name},
		Help:   "jobctl history " + name + " -n " + namespace,
	}
	var last *metav1.Time
	if m.Last != nil {
		last = ptr.To(metav1.NewTime(*m.Last))
	}
	n.Message = overdue(m.Every, last, now)
	return n
}

func overdue(every time.Duration, last *metav1.Time, now time.Time) string {
	text := fmt.Sprintf("No Job has succeeded within %s, as %s expects.", duration.HumanDuration(every), notices.EveryAnnotation)
	if last != nil {
		text += fmt.Sprintf(" The last success was %s ago.", duration.HumanDuration(now.Sub(last.Time)))
	}
	return text
}
