package storage

import (
	"strings"

	"github.com/jobd/jobd/store"
)

// birthPrefix begins the keys under which it is stored since when there is a namespace: the version of what is stored there. A
// later namespace of the same name may be somebody else's, who must not see by an old version what was in the former one.
const birthPrefix = "births."

// namespaceKey returns the key of the namespace that an object or a list of objects is in, or is; empty if there is none.
func namespaceKey(key string) string {
	resource, rest, _ := strings.Cut(key, "/")
	namespace, _, within := strings.Cut(rest, "/")
	if namespace == "" || !within && resource != "namespaces" {
		return ""
	}
	return store.Key("namespaces", "", namespace)
}

// noteBirth stores when a namespace begins, before it is written.
func noteBirth(tx *store.Tx, key string) {
	if !strings.HasPrefix(key, "namespaces/") {
		return
	}
	if _, ok := tx.Get(key); !ok {
		tx.Put(store.Object{Key: birthPrefix + key})
	}
}

// forgetBirth forgets that a namespace began, before it is deleted.
func forgetBirth(tx *store.Tx, key string) {
	if strings.HasPrefix(key, "namespaces/") {
		tx.Delete(birthPrefix + key)
	}
}

// beforeBirth reports whether a version is from before the namespace of a key began.
func beforeBirth(s *store.Snapshot, key string, version uint64) bool {
	namespace := namespaceKey(key)
	if namespace == "" {
		return false
	}
	o, ok := s.Get(birthPrefix + namespace)
	return ok && version < o.Version
}
