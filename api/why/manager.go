package why

import (
	"cmp"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Manager returns who last set a field, by its path ("spec", "suspend"), and when: the name of the program, as
// metadata.managedFields has it.
func Manager(obj metav1.Object, path ...string) (name string, when time.Time) {
	for _, m := range obj.GetManagedFields() {
		if m.FieldsV1 == nil || !owns(m.FieldsV1.GetRawString(), path) {
			continue
		}
		if m.Time == nil {
			name = cmp.Or(name, m.Manager)
		} else if m.Time.After(when) {
			name, when = m.Manager, m.Time.Time
		}
	}
	return name, when
}

// owns reports whether a set of fields of metadata.managedFields contains a field.
func owns(fields string, path []string) bool {
	raw := json.RawMessage(fields)
	for _, name := range path {
		var in map[string]json.RawMessage
		if json.Unmarshal(raw, &in) != nil {
			return false
		}
		found, ok := in["f:"+name]
		if !ok {
			return false
		}
		raw = found
	}
	return true
}
