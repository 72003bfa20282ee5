package server

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/discovery"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/store"
)

// kubernetesService is the name by which clients in pods find the API, in the namespace default.
const kubernetesService = "kubernetes"

// showKubernetesService creates or corrects default/kubernetes, and writes the address at which pods reach the API to
// its EndpointSlice: the Service has no selector. If pods cannot reach the API there is no slice.
func (s *Server) showKubernetesService() error {
	names := metav1.ObjectMeta{
		Name: kubernetesService, Namespace: metav1.NamespaceDefault, UID: uuid.NewUUID(),
		CreationTimestamp: metav1.NewTime(time.Now().Truncate(time.Second)),
	}
	serviceKey := store.Key("services", names.Namespace, names.Name)
	sliceKey := store.Key("endpointslices."+discoveryv1.GroupName, names.Namespace, names.Name)
	err := s.config.Store.Update(context.Background(), func(tx *store.Tx) error {
		service := &corev1.Service{ObjectMeta: names}
		service.Labels = map[string]string{"component": "apiserver", "provider": "kubernetes"}
		stored, ok := tx.Get(serviceKey)
		if ok {
			*service = corev1.Service{}
			if err := scheme.Decode(stored.Value, service); err != nil {
				return err
			}
		}
		kept := service.DeepCopy()
		service.Spec = corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}}
		core.SetServiceDefaults(service)
		core.WithoutAddress(service, true) // it has the address of the gateway
		if !ok || !equality.Semantic.DeepEqual(kept.Spec, service.Spec) {
			if err := put(tx, serviceKey, service); err != nil {
				return err
			}
		}
		if !s.config.PodAPI.IsValid() {
			_, _, err := storage.Delete(tx, sliceKey)
			return err
		}
		slice := &discoveryv1.EndpointSlice{ObjectMeta: names}
		slice.UID = uuid.NewUUID()
		if stored, ok := tx.Get(sliceKey); ok {
			*slice = discoveryv1.EndpointSlice{}
			if err := scheme.Decode(stored.Value, slice); err != nil {
				return err
			}
		}
		before := slice.DeepCopy()
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: kubernetesService}
		slice.AddressType = discoveryv1.AddressTypeIPv4
		if s.config.PodAPI.Addr().Is6() {
			slice.AddressType = discoveryv1.AddressTypeIPv6
		}
		slice.Endpoints = []discoveryv1.Endpoint{{
			Addresses:  []string{s.config.PodAPI.Addr().String()},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
		}}
		slice.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To(int32(s.config.PodAPI.Port()))}}
		discovery.SetEndpointSliceDefaults(slice)
		if equality.Semantic.DeepEqual(before, slice) {
			return nil
		}
		return put(tx, sliceKey, slice)
	})
	if err != nil {
		return fmt.Errorf("show the service default/kubernetes: %w", err)
	}
	return nil
}

// keepKubernetesService restores what somebody has deleted or changed of it: a user that clears a namespace does not
// mean to take the API from all pods.
func (s *Server) keepKubernetesService(touched runtime.Object) {
	m, err := meta.Accessor(touched)
	if err != nil || m.GetNamespace() != metav1.NamespaceDefault || m.GetName() != kubernetesService {
		return
	}
	if err := s.showKubernetesService(); err != nil {
		s.config.Logger.Warn("cannot restore the service of the API", "error", err)
	}
}
