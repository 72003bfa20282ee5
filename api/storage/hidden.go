package storage

import "strings"

// Hidden reports whether a key is that of something which clients do not see: what the daemon has for itself. It may be about an
// object whose UID it has.
func Hidden(key string) bool {
	resource, _, _ := strings.Cut(key, "/")
	return strings.HasSuffix(resource, ".jobd.dev") || strings.HasPrefix(key, CreatorPrefix) || strings.HasPrefix(key, birthPrefix)
}
