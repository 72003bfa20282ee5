package answers

import (
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// People are told of the Job that the notice is of, and not of another that has its name by now.
func TestTold(t *testing.T) {
	s, err := store.Open(filepath.Join(t.TempDir(), "db"), store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	j := &batchv1.Job{}
	j.Namespace, j.Name, j.UID = "team", "train", "u"
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: "True", Reason: "DeadlineExceeded"}}
	value, err := scheme.Encode(j)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Update(t.Context(), func(tx *store.Tx) error {
		tx.Put(store.Object{Key: objects.Key(objects.Jobs, j), UID: "u", Value: value})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	e := &Explainer{Sources{Store: s, Pressed: func() map[string]causes.Pressure { return nil }}}
	for want, of := range map[string]notify.Object{
		"jobs/train: has failed": {Kind: "Job", Namespace: "team", Name: "train", UID: "u"},
		"":                       {Kind: "Job", Namespace: "team", Name: "train", UID: "former"},
	} {
		text, err := e.Told(t.Context(), of)
		if err != nil || (text == "") != (want == "") || !strings.HasPrefix(text, want) {
			t.Errorf("%+v: %q, %v", of, text, err)
		}
	}
	if text, err := e.Told(t.Context(), notify.Object{Kind: "Job", Namespace: "team", Name: "gone", UID: "u"}); text != "" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}
