package storage

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/runtimeclass"
	"github.com/jobd/jobd/api/scheduling"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// PodReferences resolves the references of new pods, for the handlers and the control loop: priority classes, runtime
// classes and service accounts.
type PodReferences struct {
	snapshot *store.Snapshot
	classes  []*schedulingv1.PriorityClass
	accounts map[string]*corev1.ServiceAccount // those that were asked for, by key
}

// NewPodReferences reads the classes. The result is valid as long as the snapshot is.
func NewPodReferences(s *store.Snapshot) (*PodReferences, error) {
	classes, err := PriorityClasses(s)
	return &PodReferences{snapshot: s, classes: classes, accounts: map[string]*corev1.ServiceAccount{}}, err
}

// Resolve sets a new pod's priority, and adds what its ServiceAccount and its RuntimeClass provide. An error is the
// reason to refuse the pod.
func (r *PodReferences) Resolve(namespace string, spec *corev1.PodSpec) error {
	if err := scheduling.SetPodPriority(spec, r.classes); err != nil {
		return err
	}
	account, err := r.account(namespace, cmp.Or(spec.ServiceAccountName, core.DefaultServiceAccount))
	if err != nil {
		return err
	}
	core.UseServiceAccount(spec, account)
	return runtimeclass.SetPodRuntimeClass(spec, func(name string) (*nodev1.RuntimeClass, error) {
		return RuntimeClass(r.snapshot, name)
	})
}

// RuntimeClass returns the runtime class of that name, nil if there is none.
func RuntimeClass(s *store.Snapshot, name string) (*nodev1.RuntimeClass, error) {
	stored, ok := s.Get(store.Key("runtimeclasses."+nodev1.GroupName, "", name))
	if !ok {
		return nil, nil
	}
	class := &nodev1.RuntimeClass{}
	if err := scheme.Decode(stored.Value, class); err != nil {
		return nil, fmt.Errorf("%s: %w", stored.Key, err)
	}
	return class, nil
}

// ResolveGroup sets the priority of a new group of pods.
func (r *PodReferences) ResolveGroup(g *schedulingv1beta1.PodGroup) error {
	return scheduling.SetPodGroupPriority(g, r.classes)
}

func (r *PodReferences) account(namespace, name string) (*corev1.ServiceAccount, error) {
	key := store.Key("serviceaccounts", namespace, name)
	if account, ok := r.accounts[key]; ok {
		return account, nil
	}
	account := &corev1.ServiceAccount{}
	stored, ok := r.snapshot.Get(key)
	switch {
	case ok:
		if err := scheme.Decode(stored.Value, account); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	case name != core.DefaultServiceAccount:
		return nil, fmt.Errorf("error looking up service account %s/%s: serviceaccount %q not found", namespace, name,
			name)
	default: // it is created with its namespace, so nobody has to wait for it
	}
	r.accounts[key] = account
	return account, nil
}

// PriorityClasses returns all priority classes.
func PriorityClasses(s *store.Snapshot) ([]*schedulingv1.PriorityClass, error) {
	return every[schedulingv1.PriorityClass](s, "priorityclasses."+schedulingv1.GroupName)
}
