package server

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// namespaceRoom bounds what the objects of a kind in a namespace take together of something that is nobody's, such as the
// kernel's rules. The store is the only record of what there is; what is being written is counted as if it were there.
type namespaceRoom struct {
	most int
	// says is the error: how much there may be, and how much there would be.
	says string
	// taken returns what the objects of a namespace take now.
	taken func(namespace string) (int, error)

	mu      sync.Mutex
	pending map[string]int
}

// take fails if there is no room for more. Otherwise it is taken until the result is called, which is when the object was
// written, or was not. Objects that take no more than before always fit.
func (r *namespaceRoom) take(namespace string, more int, path *field.Path) (settle func(), err *field.Error) {
	if more <= 0 {
		return func() {}, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	there, failed := r.taken(namespace)
	if failed != nil {
		return nil, field.InternalError(path, failed)
	}
	if all := there + r.pending[namespace] + more; all > r.most {
		return nil, field.Forbidden(path, fmt.Sprintf(r.says, r.most, all))
	}
	if r.pending == nil {
		r.pending = map[string]int{}
	}
	r.pending[namespace] += more
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.pending[namespace] -= more; r.pending[namespace] == 0 {
			delete(r.pending, namespace)
		}
	}, nil
}
