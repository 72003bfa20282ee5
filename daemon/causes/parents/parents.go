// Package parents says why a CronJob or a JobSet is in the state that it is in: what makes Jobs, and follows them.
//
// In come the object with its Jobs, what is known beside them (causes.World), and the explanation of the Job that matters most; out goes
// an Explanation of api/why. Everything here is a pure function of that. What is to be said of Jobs and their pods package causes says.
package parents

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
)

// deletion is what the deletion of an object waits for; nothing if it is not deleted.
func deletion(w *causes.World, obj metav1.Object) []why.Cause {
	deleted := obj.GetDeletionTimestamp()
	if deleted == nil {
		return nil
	}
	if waits := w.Dependents.Causes(obj); waits != nil {
		return waits
	}
	return []why.Cause{{
		Type: "Terminating", Since: why.At(deleted.Time),
		Message: "It was deleted, and goes once its finalizers are gone: " + strings.Join(obj.GetFinalizers(), ", ") + ".",
	}}
}
