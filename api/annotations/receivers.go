package annotations

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/jobd/jobd/api/notices"
)

// Receivers reports whether objects of a namespace can have a receiver told of them.
type Receivers func(receiver, namespace string) bool

// Warnings returns a sentence for each receiver that an object names but that does not exist, or is not for its namespace. It
// is only a warning because the receiver may be added to the settings later. What old, the object before a change, already
// named is not warned of again.
func (known Receivers) Warnings(obj, old runtime.Object) (warnings []string) {
	m, err := meta.Accessor(obj)
	if known == nil || err != nil {
		return nil
	}
	namespace := m.GetNamespace()
	if ns, ok := obj.(*corev1.Namespace); ok {
		namespace = ns.Name
	}
	var before []place
	if old != nil {
		before = places(old)
	}
	for i, p := range places(obj) {
		if !has(p.model, notices.ReceiversAnnotation) {
			continue
		}
		for _, name := range notices.Names(p.annotations) {
			if known(name, namespace) || i < len(before) && slices.Contains(notices.Names(before[i].annotations), name) {
				continue
			}
			warnings = append(warnings, fmt.Sprintf(
				"%s: nobody is told by %q: the settings of jobd have no such receiver for this namespace (jobctl notify lists them)",
				p.path.Key(notices.ReceiversAnnotation), name,
			))
		}
	}
	return warnings
}
