package store

import "strings"

// Object is a value with what the store needs to know of it.
type Object struct {
	Key    string
	UID    string
	Owners []string // UIDs of the objects that own this one
	// Expires is when somebody should delete the object, in seconds since 1970; 0 for never. The store only finds what
	// has expired.
	Expires int64
	// Version of the change that made the object what it is; set by the store.
	Version uint64
	// Value belongs to the store and is valid only inside the transaction that returned it.
	Value []byte
}

func (o Object) clone() Object {
	o.Value = append(make([]byte, 0, len(o.Value)), o.Value...)
	return o
}

// Change is an entry of the log.
type Change struct {
	Version uint64
	// Object is what the change made of it; for a deletion the last state, with the version that it had.
	Object  Object
	Deleted bool
	// Previous is the state before the change; nil when the object was created.
	Previous *Object
}

// Key is the place of an object: resource is a GroupResource's string ("pods", "jobs.batch"), namespace is empty for
// what is not namespaced.
func Key(resource, namespace, name string) string {
	if namespace == "" {
		return resource + "/" + name
	}
	return strings.Join([]string{resource, namespace, name}, "/")
}
