package authorization

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/jobd/jobd/api/rbac"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// rights keeps what roles and bindings allow in step with the store: each decision takes in what has been written
// before it, so that a right ends with the answer to the request that deletes its binding.
type rights struct {
	store *store.Store

	mu     sync.RWMutex // held for writing to take in changes
	policy *rbac.Policy // nil before the first decision
	at     uint64       // version of the store that policy is of
}

// manyChanges is from how many changes on it is cheaper to read all roles and bindings again than to look at what has
// changed.
const manyChanges = 4096

// read calls fn with the policy. fn must not keep it.
func (r *rights) read(fn func(*rbac.Policy)) error {
	r.mu.RLock()
	if r.policy != nil && r.at == r.store.Version() {
		defer r.mu.RUnlock()
		fn(r.policy)
		return nil
	}
	r.mu.RUnlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.follow(); err != nil {
		return fmt.Errorf("read roles and bindings: %w", err)
	}
	fn(r.policy)
	return nil
}

// follow takes in what has been written since the last time.
func (r *rights) follow() error {
	return r.store.View(func(s *store.Snapshot) (err error) {
		if r.policy != nil && s.Version()-r.at <= manyChanges {
			changed := s.Changes(r.at, func(c store.Change) bool {
				err = r.fold(c)
				return err == nil
			})
			if err == nil && changed == nil {
				r.at = s.Version()
				return nil
			}
			if err == nil && !errors.Is(changed, store.ErrCompacted) {
				err = changed
			}
			if err != nil {
				r.policy = nil // it may have taken in a part
				return err
			}
		}
		policy := rbac.NewPolicy()
		for resource := range rbacTypes {
			s.Range(resource+"/", "", func(o store.Object) bool {
				var obj rbacObject
				if obj, err = decodeRBAC(o); err == nil {
					policy.Put(obj)
				}
				return err == nil
			})
			if err != nil {
				return err
			}
		}
		r.policy, r.at = policy, s.Version()
		return nil
	})
}

func (r *rights) fold(c store.Change) error {
	resource, _, _ := strings.Cut(c.Object.Key, "/")
	if rbacTypes[resource] == nil {
		return nil
	}
	obj, err := decodeRBAC(c.Object)
	if err != nil {
		return err
	}
	if c.Deleted {
		r.policy.Delete(obj)
	} else {
		r.policy.Put(obj)
	}
	return nil
}

type rbacObject interface {
	runtime.Object
	metav1.Object
}

// rbacTypes makes empty objects of the four kinds, by the resource with which their keys begin.
var rbacTypes = map[string]func() rbacObject{
	rbac.Roles:               func() rbacObject { return &rbacv1.Role{} },
	rbac.ClusterRoles:        func() rbacObject { return &rbacv1.ClusterRole{} },
	rbac.RoleBindings:        func() rbacObject { return &rbacv1.RoleBinding{} },
	rbac.ClusterRoleBindings: func() rbacObject { return &rbacv1.ClusterRoleBinding{} },
}

func decodeRBAC(o store.Object) (rbacObject, error) {
	resource, _, _ := strings.Cut(o.Key, "/")
	obj := rbacTypes[resource]()
	if err := scheme.Decode(o.Value, obj); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	return obj, nil
}
