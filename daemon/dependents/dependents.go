// Package dependents is what the deletion of an object in the foreground waits for, and how people are told of that.
//
// Everything is a pure function of the objects. Package answers finds them, package causes tells of them.
package dependents

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/api/why"
)

// Dependents are the objects for which the deletion of their owner in the foreground waits.
type Dependents struct {
	// Some are as many of them as are named, Others how many there are besides. Those that the client may not see are among these.
	Some   []Dependent
	Others int
}

// Dependent is an object for which the deletion of its owner in the foreground waits.
type Dependent struct {
	Object metav1.Object
	Kind   string
	// Stranger is an owner of a kind that is not served here, if it has one. It is left alone then.
	Stranger string
}

// namedDependents is how many dependents are named.
const namedDependents = 5

// Add adds an object.
func (d *Dependents) Add(of Dependent) {
	if len(d.Some) == namedDependents {
		d.Others++
		return
	}
	d.Some = append(d.Some, of)
}

// Awaits reports whether an object that is being deleted waits for its dependents.
func Awaits(obj metav1.Object) bool {
	return obj.GetDeletionTimestamp() != nil && storage.Propagation(obj) == metav1.DeletePropagationForeground
}

// Causes is what the deletion of an object in the foreground waits for; nothing if it does not.
func (d *Dependents) Causes(obj metav1.Object) []why.Cause {
	if !Awaits(obj) || len(d.Some)+d.Others == 0 {
		return nil
	}
	c := why.Cause{
		Type: "DependentsHold", Since: why.At(obj.GetDeletionTimestamp().Time), Details: map[string]string{},
		Message: "It was deleted in the foreground, and goes once what belongs to it has gone:",
	}
	n := len(d.Some) + d.Others
	c.Details["dependents"] = fmt.Sprint(n)
	for _, one := range d.Some {
		c.Causes = append(c.Causes, one.cause(obj.GetNamespace()))
	}
	switch {
	case len(d.Some) == 0:
		c.Message = fmt.Sprintf("It was deleted in the foreground, and goes once the %d that belong to it have gone.", n)
		if n == 1 {
			c.Message = "It was deleted in the foreground, and goes once an object that belongs to it has gone."
		}
	case d.Others > 0:
		c.Causes = append(c.Causes, why.Cause{Type: "Dependents", Message: fmt.Sprintf("There are %d more.", d.Others)})
	}
	c.Brief = "waits for " + d.first(n) + " to go"
	return []why.Cause{c}
}

// first names what is waited for in a few words.
func (d *Dependents) first(n int) string {
	switch {
	case len(d.Some) == 0:
		return "what belongs to it"
	case n == 1:
		return d.Some[0].reference().String()
	}
	return fmt.Sprintf("%s and %d more", d.Some[0].reference(), n-1)
}

func (d Dependent) reference() why.Reference {
	return why.Reference{Kind: d.Kind, Namespace: d.Object.GetNamespace(), Name: d.Object.GetName()}
}

// cause says why a dependent is still there. The finalizers of Jobs and of deletions go by themselves.
func (d Dependent) cause(namespace string) why.Cause {
	about := d.reference()
	c := why.Cause{Type: "Dependent", Object: &about, Message: "is being deleted.", Details: map[string]string{}}
	var foreign []string
	for _, f := range d.Object.GetFinalizers() {
		switch f {
		case metav1.FinalizerDeleteDependents, metav1.FinalizerOrphanDependents, batchv1.JobTrackingFinalizer:
		default:
			foreign = append(foreign, f)
		}
	}
	switch deleted := d.Object.GetDeletionTimestamp(); {
	case deleted == nil && d.Stranger != "":
		c.Type, c.Message = "OwnerUnknown", fmt.Sprintf("is not deleted, since %s owns it too, of a kind that is not served here.", d.Stranger)
		c.Details["owner"] = d.Stranger
	case deleted == nil:
		c.Message = "is about to be deleted."
	case len(foreign) > 0:
		c.Type, c.Since = "FinalizersHold", why.At(deleted.Time)
		c.Message = "was deleted, and its finalizers hold it: " + strings.Join(foreign, ", ") + "."
		c.Details["finalizers"] = strings.Join(foreign, ",")
	default:
		c.Since = why.At(deleted.Time)
	}
	switch d.Kind {
	case "Job", "Pod", "CronJob", "JobSet":
		c.Help = []string{"jobctl why " + d.reference().String() + why.InNamespace(namespace)}
	}
	return c
}
