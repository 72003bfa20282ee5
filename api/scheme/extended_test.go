package scheme

import (
	"bytes"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"
)

// What is written with another status is what would be written anew, whatever texts the rest has.
func TestEncodeStatus(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{`","status":{`, `\`, `"status":`, `}`, `{"status":1}`, ""}))
		js := &jobsetv1.JobSet{ObjectMeta: metav1.ObjectMeta{Name: text.Draw(t, "name")}}
		for range rapid.IntRange(0, 3).Draw(t, "groups") {
			g := jobsetv1.ReplicatedJob{Name: text.Draw(t, "group"), Replicas: 3}
			g.Template.Annotations = map[string]string{"status": text.Draw(t, "annotation"), text.Draw(t, "key"): "x"}
			g.DependsOn = []jobsetv1.DependsOn{{Name: "a", Status: jobsetv1.DependsOnStatus(text.Draw(t, "depends"))}}
			js.Spec.ReplicatedJobs = append(js.Spec.ReplicatedJobs, g)
		}
		stored, err := Encode(js)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			js.Labels = map[string]string{"l": text.Draw(t, "label")}
			js.Status.TerminalState = text.Draw(t, "state")
			js.Status.ReplicatedJobsStatus = []jobsetv1.ReplicatedJobStatus{{Name: text.Draw(t, "counted"), Ready: 1}}
			want, err := Encode(js)
			if err != nil {
				t.Fatal(err)
			}
			if stored, err = EncodeStatus(stored, js); err != nil || !bytes.Equal(stored, want) {
				t.Fatalf("got\n%q\nwant\n%q, %v", stored, want, err)
			}
		}
	})
	// An object with a protobuf form is written as a whole.
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
	want, _ := Encode(j)
	if got, err := EncodeStatus(nil, j); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}
