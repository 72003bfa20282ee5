package daemon

import (
	"sync"

	"github.com/jobd/jobd/api/kind"
	"github.com/jobd/jobd/api/scheme"
)

// served are the kinds of the API by their resource, for what the loop does to objects of any kind.
var served = sync.OnceValue(func() map[string]*kind.Kind {
	kinds := map[string]*kind.Kind{}
	for _, k := range scheme.Kinds() {
		kinds[k.GroupResource().String()] = k
	}
	return kinds
})
