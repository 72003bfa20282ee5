package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/daemon/maintenance"
	"github.com/jobd/jobd/store"
)

// everything returns the objects of a database by key.
func everything(t testing.TB, s *store.Store) map[string]store.Object {
	t.Helper()
	objects := map[string]store.Object{}
	err := s.View(func(sn *store.Snapshot) error {
		sn.Range("", "", func(o store.Object) bool {
			o.Value = append([]byte(nil), o.Value...)
			objects[o.Key] = o
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// TestDatabaseOfARunningDaemonIsLookedAfter checks, copies and compacts it beside writers, and starts another daemon
// from the copy.
func TestDatabaseOfARunningDaemonIsLookedAfter(t *testing.T) {
	t.Parallel()
	d := start(t)
	ctx := t.Context()
	jobs := clientset(t, d.socket()).BatchV1().Jobs("default")
	stop, stopped := make(chan struct{}), make(chan struct{})
	made := make(chan string, 1)
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			job, err := jobs.Create(ctx, newJob(fmt.Sprint("j", i), 1, nil), metav1.CreateOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			select {
			case made <- job.Name:
			default:
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	first := <-made
	copied := filepath.Join(t.TempDir(), "copy")
	lookAfter := func() {
		t.Helper()
		if refused, err := maintenance.Check(ctx, d.config()); err != nil || len(refused) > 0 {
			t.Error(refused, err)
		}
		out, err := os.Create(copied)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		if err := maintenance.Backup(ctx, d.config(), out); err != nil {
			t.Error(err)
		}
		if before, after, err := maintenance.Compact(ctx, d.config()); err != nil || after == 0 || after > before {
			t.Errorf("from %d to %d bytes: %v", before, after, err)
		}
	}
	lookAfter()
	close(stop)
	<-stopped

	// The socket of one daemon with the root of another is refused.
	other := start(t)
	mixed := d.config()
	mixed.Socket = filepath.Join(other.dir, "state", "jobd.sock")
	if _, err := maintenance.Check(ctx, mixed); err == nil || !strings.Contains(err.Error(), filepath.Join(other.dir, "root", "jobd.db")) {
		t.Errorf("the database of another daemon: %v", err)
	}
	mixed.Socket = filepath.Join(d.dir, "nothing.sock")
	if _, err := maintenance.Check(ctx, mixed); err == nil || !strings.Contains(err.Error(), "open in another jobd (pid ") {
		t.Errorf("a socket that nobody serves: %v", err)
	}

	other.stop()
	restored, err := os.ReadFile(copied)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other.dir, "root", "jobd.db"), restored, 0o600); err != nil {
		t.Fatal(err)
	}
	other.serve()
	if _, err := clientset(t, other.socket()).BatchV1().Jobs("default").Get(ctx, first, metav1.GetOptions{}); err != nil {
		t.Errorf("from the copy: %v", err)
	}

	d.stop()
	lookAfter()
}
