package server

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/jobd/jobd/api/admit"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/rbac"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/scheduling"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/api/storageclass"
	"github.com/jobd/jobd/store"
)

// object is one of the server's own, of any kind.
type object interface {
	runtime.Object
	metav1.Object
}

// builtIn is an object that every cluster has.
type builtIn struct {
	key    string
	object object
	// correct decodes what is stored, and returns it with what it lacks; nil if it lacks nothing. If it is not set, what is
	// stored is left as it is.
	correct func(stored []byte) (object, error)
}

// ensure creates or corrects built-in objects. Nothing is written when none lacks anything, as at nearly every start.
func (s *Server) ensure(all []builtIn) error {
	var lacking []builtIn
	if err := s.config.Store.View(func(sn *store.Snapshot) (err error) {
		lacking, err = lackingOf(all, sn)
		return err
	}); err != nil || len(lacking) == 0 {
		return err
	}
	return s.config.Store.Update(context.Background(), func(tx *store.Tx) error {
		lacking, err := lackingOf(all, tx.Snapshot)
		if err != nil {
			return err
		}
		for _, b := range lacking {
			if err := putCluster(tx, b.key, b.object); err != nil {
				return err
			}
		}
		return nil
	})
}

// lackingOf returns the objects that are not stored, and those that are with what they lack.
func lackingOf(all []builtIn, s *store.Snapshot) (lacking []builtIn, err error) {
	for _, b := range all {
		if o, ok := s.Get(b.key); ok {
			if b.correct == nil {
				continue
			}
			if b.object, err = b.correct(o.Value); err != nil {
				return nil, fmt.Errorf("%s: %w", b.key, err)
			}
			if b.object == nil {
				continue
			}
		}
		lacking = append(lacking, b)
	}
	return lacking, nil
}

// putCluster stores one of the server's own objects, which is in no namespace. A new one gets its UID.
func putCluster(tx *store.Tx, key string, o object) error {
	if o.GetUID() == "" {
		o.SetUID(uuid.NewUUID())
		o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	}
	o.SetResourceVersion("")
	value, err := scheme.Encode(o)
	if err != nil {
		return err
	}
	tx.Put(store.Object{Key: key, UID: string(o.GetUID()), Value: value})
	return nil
}

// put stores one of the server's own objects that is in a namespace.
func put(tx *store.Tx, key string, o object) error {
	value, err := scheme.Encode(o)
	if err != nil {
		return err
	}
	_, err = storage.Put(tx, &store.Object{Key: key, UID: string(o.GetUID()), Value: value})
	return err
}

// system lists the namespaces that every start creates if they are missing.
var system = append([]string{corev1.NamespaceNodeLease}, admit.PermanentNamespaces...)

// createNamespaces makes the system namespaces that are missing.
func (s *Server) createNamespaces() error {
	var all []builtIn
	for _, name := range system {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		core.PrepareNamespace(ns)
		all = append(all, builtIn{key: store.Key("namespaces", "", name), object: ns})
	}
	if err := s.ensure(all); err != nil {
		return fmt.Errorf("create the namespaces %v: %w", system, err)
	}
	return nil
}

// createRoles makes the roles and bindings that every cluster has, and adds what is missing in them.
func (s *Server) createRoles() error {
	defaults, bindings, err := rbac.Defaults(s.access.RoleRules(), roles.AdminGroup)
	if err != nil {
		return fmt.Errorf("the default roles: %w", err)
	}
	var all []builtIn
	for _, r := range defaults {
		all = append(all, reconciled(rbac.ClusterRoles, r, rbac.Reconcile))
	}
	for _, b := range bindings {
		all = append(all, reconciled(rbac.ClusterRoleBindings, b, rbac.ReconcileBinding))
	}
	if err := s.ensure(all); err != nil {
		return fmt.Errorf("create the default roles: %w", err)
	}
	return nil
}

// reconciled returns a role or binding to which what is missing is added by add, which reports whether there was something.
func reconciled[T any, P interface {
	*T
	object
}](resource string, wanted P, add func(stored, wanted P) bool) builtIn {
	return builtIn{
		key: store.Key(resource, "", wanted.GetName()), object: wanted,
		correct: func(value []byte) (object, error) {
			stored := P(new(T))
			if err := scheme.Decode(value, stored); err != nil || !add(stored, wanted) {
				return nil, err
			}
			return stored, nil
		},
	}
}

// createPriorityClasses creates the built-in ones that are missing.
func (s *Server) createPriorityClasses() error {
	var all []builtIn
	for _, class := range scheduling.Builtin() {
		all = append(all, builtIn{key: store.Key(admit.ClassResource.String(), "", class.Name), object: class})
	}
	if err := s.ensure(all); err != nil {
		return fmt.Errorf("create the built-in priority classes: %w", err)
	}
	return nil
}

// localClassMade marks a database in which the default class has been created before. If an administrator then deletes
// the class, it is not created again.
const localClassMade = "marks.jobd.dev/local-storage-class"

// createStorageClass creates the default class at the first start.
func (s *Server) createStorageClass() error {
	err := s.config.Store.Update(context.Background(), func(tx *store.Tx) error {
		if _, ok := tx.Get(localClassMade); ok {
			return nil
		}
		tx.Put(store.Object{Key: localClassMade})
		class := storageclass.Local()
		key := store.Key("storageclasses."+storagev1.GroupName, "", class.Name)
		if _, ok := tx.Get(key); ok {
			return nil
		}
		return putCluster(tx, key, class)
	})
	if err != nil {
		return fmt.Errorf("create the default storage class: %w", err)
	}
	return nil
}
