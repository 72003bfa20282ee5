package server

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/jobd/jobd/api/admit"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/roles"
)

// TestANamespaceLeavesRoomOnTheDisk: who writes the objects of one namespace takes no more than half of what others have left. Whoever
// is over that can still delete; others, and administrators, can do anything.
func TestANamespaceLeavesRoomOnTheDisk(t *testing.T) {
	var left atomic.Int64
	left.Store(1 << 40)
	ts := startServer(t, func(c *Config) {
		c.DiskRoom = &admit.DiskRoom{Store: c.Store, Space: func() (int64, int64, error) { return left.Load(), 1 << 30, nil }}
	})
	as := func(namespace string) kubernetes.Interface {
		return ts.person(t, "x", roles.Role{Name: core.RoleSubmit, Namespace: namespace}.Group())
	}
	admin := ts.client(t)
	for _, name := range []string{"one", "two"} {
		mustMake(t, admin.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	of := func(i, size int) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i), Finalizers: []string{"example.com/x"}},
			Data:       map[string]string{"a": strings.Repeat("x", size)},
		}
	}
	one, two := as("one").CoreV1().ConfigMaps("one"), as("two").CoreV1().ConfigMaps("two")
	for i := range 70 {
		mustMake(t, one, of(i, 1_000_000))
	}
	full := func(err error) bool {
		status, ok := err.(apierrors.APIStatus)
		return ok && status.Status().Code == 507 && strings.Contains(err.Error(), "the namespace one has more than 64 MiB")
	}
	left.Store(100 << 20)
	if _, err := one.Create(t.Context(), of(100, 1), metav1.CreateOptions{}); !full(err) {
		t.Errorf("one more: %v", err)
	}
	if _, err := one.Update(t.Context(), of(0, 1_000_001), metav1.UpdateOptions{}); !full(err) {
		t.Errorf("a larger one: %v", err)
	}
	mustMake(t, two, of(100, 1_000_000))
	mustMake(t, admin.CoreV1().ConfigMaps("one"), of(101, 1_000_000))
	if err := one.Delete(t.Context(), "c0", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	last := of(0, 1_000_000)
	last.Finalizers = nil
	if _, err := one.Update(t.Context(), last, metav1.UpdateOptions{}); err != nil {
		t.Errorf("the last finalizer: %v", err)
	}
	left.Store(200 << 20) // the half of which is more than it has
	mustMake(t, one, of(102, 1))
}
