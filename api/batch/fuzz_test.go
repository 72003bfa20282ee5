package batch

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/indexes"
)

// rules puts a Job through everything; none of it may panic, whatever the Job.
func rules(t *testing.T, job *batchv1.Job) {
	t.Helper()
	raw := job.DeepCopy()
	SetJobDefaults(job)
	again := job.DeepCopy()
	SetJobDefaults(again)
	if !equality.Semantic.DeepEqual(job, again) {
		t.Fatalf("defaulting twice differs:\n%s", cmp.Diff(job, again))
	}
	PrepareJob(job)
	prepared := job.DeepCopy()
	SetJobDefaults(prepared)
	if !equality.Semantic.DeepEqual(job, prepared) {
		t.Fatalf("defaulting what is stored differs:\n%s", cmp.Diff(job, prepared))
	}
	_ = ValidateJob(job)
	_ = jobWarnings(job)
	_ = jobUpdateWarnings(job, raw)
	_ = jobTable().Cells(job, time.Unix(1, 0))
	_ = validateJobUpdate(job, raw)
	_ = validateJobUpdate(raw, job)
	_ = validateJobStatusUpdate(raw, job)
	_ = validateJobStatusUpdate(job, raw)
	prepareJobUpdate(again, raw)
	prepareJobStatusUpdate(again, raw)
}

func FuzzJobManifest(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(oracle, "bad", "*.yaml"))
	if err != nil || len(files) == 0 {
		f.Fatal("no manifests: ", err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		job := &batchv1.Job{}
		if yaml.Unmarshal(data, job) != nil {
			return
		}
		rules(t, job)
	})
}

// FuzzFilledJob reaches every field, including those that no manifest in a corpus has.
func FuzzFilledJob(f *testing.F) {
	for seed := range int64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		job := &batchv1.Job{}
		randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).MaxDepth(9).Fill(job)
		job.ManagedFields = nil
		rules(t, job)
	})
}

func FuzzIndexList(f *testing.F) {
	f.Add("1,3-5,7", int32(10))
	f.Add("0-2147483647", int32(2147483647))
	f.Fuzz(func(t *testing.T, list string, completions int32) {
		intervals, err := indexes.Parse(list, completions)
		if err != nil {
			return
		}
		last := int32(-1)
		for _, i := range intervals {
			if i.First <= last || i.Last < i.First || i.Last >= completions {
				t.Fatalf("%q below %d: %v", list, completions, intervals)
			}
			last = i.Last
		}
	})
}
