package upkeep

import (
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/jobd/jobd/api/rbac"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// ClusterRoles gives aggregated ClusterRoles (ClusterRole.AggregationRule) the rules of those that they select.
type ClusterRoles struct {
	loop.Base
	due bool
}

// NewClusterRoles makes the controller.
func NewClusterRoles() *ClusterRoles { return &ClusterRoles{} }

// Rebuild implements loop.Controller.
func (c *ClusterRoles) Rebuild(*store.Snapshot, time.Time) error {
	c.due = true
	return nil
}

// Fold implements loop.Controller.
func (c *ClusterRoles) Fold(_ *loop.Pass, change loop.Change) error {
	c.due = c.due || change.Resource == rbac.ClusterRoles
	return nil
}

// Gone implements loop.GoneFollower: a ClusterRole may be removed with its owner.
func (c *ClusterRoles) Gone(_ *loop.Pass, o store.Object) {
	c.due = c.due || objects.ResourceOf(o.Key) == rbac.ClusterRoles
}

// Dirty implements loop.Controller.
func (c *ClusterRoles) Dirty() bool { return c.due }

// Settle writes the roles whose rules have changed.
func (c *ClusterRoles) Settle(p *loop.Pass) (bool, error) {
	if !c.due {
		return false, nil
	}
	c.due = false
	var roles []*rbacv1.ClusterRole
	var err error
	p.Snapshot().Keys(rbac.ClusterRoles+"/", "", func(key string) bool {
		role, ok := &rbacv1.ClusterRole{}, false
		if ok, err = objects.Read(p, key, role); ok { // as the pass has left it
			roles = append(roles, role)
		}
		return err == nil
	})
	if err != nil {
		return false, err
	}
	changed, err := rbac.Aggregate(roles)
	if err != nil {
		return false, err
	}
	for _, role := range changed {
		if err := p.Put(store.Key(rbac.ClusterRoles, "", role.Name), role); err != nil {
			return false, err
		}
	}
	return true, nil
}
