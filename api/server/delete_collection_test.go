package server

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/flowcontrol"
)

// A collection is deleted to its end, though the deletion of what comes first cuts the history in which it was begun; and it holds only
// a part of what it deletes, also when it deletes nothing.
func TestDeletionOfALargeCollection(t *testing.T) {
	ts := startServer(t)
	configs := ts.client(t).CoreV1().ConfigMaps("default")
	for i := range 50 {
		large := map[string]string{"a": strings.Repeat("x", 1<<20)}
		mustMake(t, configs, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c", i)}, Data: large})
	}
	peak := func(do func()) (most int) {
		done := make(chan struct{})
		go func() { defer close(done); do() }()
		for {
			held, _ := ts.local.shares.Held()
			most = max(most, held)
			select {
			case <-done:
				return most
			default:
			}
		}
	}
	for _, dry := range [][]string{{metav1.DryRunAll}, nil} {
		most := peak(func() {
			if err := configs.DeleteCollection(t.Context(), metav1.DeleteOptions{DryRun: dry}, metav1.ListOptions{}); err != nil {
				t.Error(err)
			}
		})
		if most > flowcontrol.MaxHeldOfOne*2/3 || most < 4<<20 {
			t.Errorf("%d bytes were held, dry run: %v", most, dry)
		}
	}
	if l, err := configs.List(t.Context(), metav1.ListOptions{}); err != nil || len(l.Items) > 0 {
		t.Errorf("%d are left, %v", len(l.Items), err)
	}
}
