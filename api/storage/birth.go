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

// birthKey returns the key under which the birth is stored of the namespace of a key; empty if there is none.
func birthKey(key string) string {
	namespace := namespaceKey(key)
	if namespace == "" {
		return ""
	}
	return birthPrefix + namespace
}

// birth returns the version at which the namespace of a key began, 0 if that is not known.
func birth(s *store.Snapshot, key string) uint64 {
	at := birthKey(key)
	if at == "" {
		return 0
	}
	o, _ := s.Get(at)
	return o.Version
}

// sinceBirth returns the version from which a watch of a key starts if it was asked for from an older one: the version at which
// its namespace began, if there was no namespace of that name at the older one. If there was, the client knows objects of the
// former namespace: store.ErrCompacted.
func sinceBirth(s *store.Snapshot, key string, from uint64) (uint64, error) {
	began := birth(s, key)
	if from >= began {
		return from, nil
	}
	namespace := namespaceKey(key)
	past, err := s.At(from, namespace)
	if err != nil {
		return 0, err
	}
	if _, there := past.Get(namespace); there {
		return 0, store.ErrCompacted
	}
	return began, nil
}
