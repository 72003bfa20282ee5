package causes

import "encoding/json"

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
