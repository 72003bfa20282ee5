package storage

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

// A database that somebody has written says of each object what is wrong with it.
func TestCheckOfObjects(t *testing.T) {
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "u"}
	}
	for name, c := range map[string]struct {
		key, uid string
		object   runtime.Object // or
		value    string
		wrong    string
		refused  string
	}{
		"sound":               {key: "configmaps/default/a", uid: "u", object: &corev1.ConfigMap{ObjectMeta: meta("default", "a")}},
		"the daemon's own":    {key: "schedules.jobd.dev/u", value: "anything"},
		"a namespace's birth": {key: birthPrefix + "namespaces/team"},
		"a Job's creator":     {key: CreatorPrefix + "jobs.batch/default/a", value: "anything"},
		"no object at all":    {key: "pods/default/a", uid: "u", value: "\xff\xff", wrong: `"pods/default/a": decode *v1.Pod`},
		"of no kind":          {key: "../../x/default/a", uid: "u", value: "", wrong: "there is no such kind"},
		"another name":        {key: "configmaps/default/a", uid: "u", object: &corev1.ConfigMap{ObjectMeta: meta("default", "b")}, wrong: `calls itself "b"`},
		"another namespace": {
			key: "configmaps/default/a", uid: "u", object: &corev1.ConfigMap{ObjectMeta: meta("kube-system", "a")},
			wrong: `in the namespace "kube-system"`,
		},
		"another UID": {key: "configmaps/default/a", uid: "v", object: &corev1.ConfigMap{ObjectMeta: meta("default", "a")}, wrong: `the UID "u"`},
		"what validation refuses": {
			key: "jobs.batch/default/a", uid: "u",
			object:  &batchv1.Job{ObjectMeta: meta("default", "a"), Spec: batchv1.JobSpec{Parallelism: ptr.To[int32](-5)}},
			refused: `"jobs.batch/default/a": spec.parallelism: Invalid value: -5`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			db, err := store.Open(filepath.Join(t.TempDir(), "jobd.db"), store.Options{NoSync: true})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			value := []byte(c.value)
			if c.object != nil {
				if value, err = scheme.Encode(c.object); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Update(t.Context(), func(tx *store.Tx) error {
				tx.Put(store.Object{Key: c.key, UID: c.uid, Value: value})
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			refused, err := Check(t.Context(), db)
			if c.wrong == "" && err != nil || c.wrong != "" && (!errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), c.wrong)) {
				t.Errorf("wrong: %v, want %q", err, c.wrong)
			}
			if got := strings.Join(refused, "\n"); c.refused == "" && got != "" || !strings.Contains(got, c.refused) {
				t.Errorf("refused: %q, want %q", got, c.refused)
			}
		})
	}
}
