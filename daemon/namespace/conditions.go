package namespace

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/conditions"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// remains is what a namespace that is being deleted still waits for.
type remains struct {
	objects    map[string]int // by resource
	finalizers map[string]int
}

// remaining counts what is left in a namespace after this pass.
func remaining(p *loop.Pass, name string) (r remains, n int, err error) {
	r = remains{map[string]int{}, map[string]int{}}
	for _, resource := range contents() {
		k := objects.Served()[resource]
		if k == nil {
			continue // clients do not see these
		}
		p.Snapshot().Keys(store.Key(resource, name, ""), "", func(key string) bool {
			o, ok := p.Get(key)
			if !ok {
				return true
			}
			n++
			r.objects[k.Resource+"."+k.GroupVersion.Group]++
			obj := k.New()
			if err = scheme.DecodePart(o.Value, objects.Finalizers, obj); err != nil {
				return false
			}
			for _, f := range obj.(objects.Object).GetFinalizers() {
				r.finalizers[f]++
			}
			return true
		})
		if err != nil {
			return r, n, fmt.Errorf("namespaces/%s: count %s: %w", name, resource, err)
		}
	}
	return r, n, nil
}

// showRemains shows in the conditions of a namespace what it waits for, so rarely that it costs little.
func (e *Emptier) showRemains(p *loop.Pass, key string, ns *corev1.Namespace) error {
	at := e.terminating[ns.Name]
	if at.show.After(p.Now) {
		e.timers.Set(e, ns.Name, at.show)
		return nil
	}
	r, n, err := remaining(p, ns.Name)
	if err != nil || n == 0 {
		return err
	}
	at.show = p.Now.Add(time.Second + time.Duration(n)*100*time.Microsecond)
	changed := false
	for _, c := range r.conditions() {
		c.LastTransitionTime = metav1.NewTime(p.Now)
		changed = conditions.Set(&ns.Status.Conditions, c) || changed
	}
	if !changed {
		return nil
	}
	return p.Put(key, ns)
}

// conditions returns the conditions in the words of a cluster. Failures of discovery and deletion do not occur here.
func (r remains) conditions() []corev1.NamespaceCondition {
	fine := func(kind corev1.NamespaceConditionType, reason, message string) corev1.NamespaceCondition {
		return corev1.NamespaceCondition{Type: kind, Status: corev1.ConditionFalse, Reason: reason, Message: message}
	}
	all := []corev1.NamespaceCondition{
		fine(corev1.NamespaceDeletionDiscoveryFailure, "ResourcesDiscovered", "All resources successfully discovered"),
		fine(corev1.NamespaceDeletionGVParsingFailure, "ParsedGroupVersions",
			"All legacy kube types successfully parsed"),
		fine(corev1.NamespaceDeletionContentFailure, "ContentDeleted",
			"All content successfully deleted, may be waiting on finalization"),
		fine(corev1.NamespaceContentRemaining, "ContentRemoved", "All content successfully removed"),
		fine(corev1.NamespaceFinalizersRemaining, "ContentHasNoFinalizers",
			"All content-preserving finalizers finished"),
	}
	if len(r.objects) > 0 {
		all[3].Status, all[3].Reason = corev1.ConditionTrue, "SomeResourcesRemain"
		all[3].Message = "Some resources are remaining: " + tally(r.objects, "%s has %d resource instances")
	}
	if len(r.finalizers) > 0 {
		all[4].Status, all[4].Reason = corev1.ConditionTrue, "SomeFinalizersRemain"
		all[4].Message = "Some content in the namespace has finalizers remaining: " +
			tally(r.finalizers, "%s in %d resource instances")
	}
	return all
}

func tally(of map[string]int, format string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		out = append(out, fmt.Sprintf(format, name, of[name]))
	}
	return strings.Join(out, ", ")
}
