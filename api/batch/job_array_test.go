package batch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// arrayJob is a Job that is an array.
func arrayJob(text string, completions int32) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "j", Annotations: map[string]string{ArrayAnnotation: text}},
		Spec:       batchv1.JobSpec{Completions: &completions, CompletionMode: ptr.To(batchv1.IndexedCompletion)},
	}
}

func TestTasksOfAnArray(t *testing.T) {
	for text, want := range map[string]string{
		"1-4":            "1 2 3 4",
		"0":              "0",
		"007":            "7",
		"0-15:4":         "0 4 8 12",
		"1,3,7":          "1 3 7",
		"7,1-9:4,20-22":  "7 1 5 9 20 21 22",
		"5-5:3":          "5",
		"999999999":      "999999999",
		"2,2":            "2 2",
		"":               `error "" are not tasks`,
		"1,":             `error "" are not tasks`,
		"1-":             `error "1-" are not tasks`,
		"-1":             `error "-1" are not tasks`,
		"1-2-3":          `error "1-2-3" are not tasks`,
		"1:2":            `error "1:2" are not tasks`,
		"1-9:2:3":        `error "1-9:2:3" are not tasks`,
		"1-4%2":          `error "1-4%2" are not tasks`,
		"1, 2":           `error " 2" are not tasks`,
		"+1":             `error "+1" are not tasks`,
		"١":              `error "١" are not tasks`,
		"1000000000":     `error "1000000000" are not tasks`,
		"1-9:0":          `error "1-9:0" has a step of 0`,
		"1,5-1":          `error "5-1" goes from 5 down to 1`,
		"[1-4]":          `error "[1-4]" are not tasks`,
		"1-4\n":          `error "1-4\n" are not tasks`,
		"1-4,1-1:x,some": `error "1-1:x" are not tasks`,
	} {
		a, err := ParseArray(text)
		got := fmt.Sprint("error ", err)
		if err == nil {
			var all []string
			for i := range a.Tasks() {
				task, _ := a.Task(int(i))
				all = append(all, strconv.FormatInt(task, 10))
			}
			got = strings.Join(all, " ")
		}
		if got != want && (err == nil || !strings.HasPrefix(got, want)) {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestTheArrayOfAJobIsValidated(t *testing.T) {
	annotations := field.NewPath("metadata", "annotations")
	nonIndexed := arrayJob("1-4", 4)
	nonIndexed.Spec.CompletionMode = nil
	without := arrayJob("", 4)
	without.Annotations = nil
	for _, c := range []struct {
		name string
		job  *batchv1.Job
		want string
	}{
		{"as it should be", arrayJob("1-4", 4), ""},
		{"without the annotation", without, ""},
		{"empty", arrayJob("", 0), "are not tasks"},
		{"malformed", arrayJob("1-4%2", 4), "are not tasks"},
		{"too few", arrayJob("1-4", 5), "must have as many tasks as spec.completions says, 5, and has 4"},
		{"too many", arrayJob("0-999999999,0-999999999,0-999999999", 4), "and has 3000000000"},
		{"NonIndexed", nonIndexed, "needs spec.completionMode: Indexed"},
	} {
		err := validateArray(c.job.Annotations, &c.job.Spec, annotations).ToAggregate()
		if (err == nil) != (c.want == "") || err != nil &&
			(!strings.HasPrefix(err.Error(), "metadata.annotations[jobd.dev/array]: ") || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	few := arrayJob("1-4", 5)
	if err := ValidateJob(few).ToAggregate(); err == nil || !strings.Contains(err.Error(), "metadata.annotations[jobd.dev/array]: ") {
		t.Errorf("of a Job: %v", err)
	}
	template := batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{ObjectMeta: few.ObjectMeta, Spec: few.Spec}}
	err := validateCronJobSpec(&template, nil, field.NewPath("spec")).ToAggregate()
	if err == nil || !strings.Contains(err.Error(), "spec.jobTemplate.metadata.annotations[jobd.dev/array]: ") {
		t.Errorf("of a CronJob: %v", err)
	}

	old := arrayJob("1-4", 4)
	for _, c := range []struct {
		name string
		job  *batchv1.Job
		want string
	}{
		{"unchanged", old, ""},
		{"changed", arrayJob("2-5", 4), "field is immutable"},
		{"removed", without, "field is immutable"},
		{"grown", arrayJob("1-4", 5), "must have as many tasks"},
	} {
		err := validateArrayUpdate(c.job, old, annotations).ToAggregate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := validateArrayUpdate(old, without, annotations); len(err) != 1 {
		t.Errorf("the annotation can be added to a Job that runs: %v", err)
	}
	// What was stored before anybody looked at the annotation can be changed otherwise.
	if err := validateArrayUpdate(arrayJob("x", 4), arrayJob("x", 4), annotations); len(err) != 0 {
		t.Error(err)
	}
}

func TestValuesOfAnArray(t *testing.T) {
	none := func(string) (map[string]string, error) { t.Error("a ConfigMap is read"); return nil, nil }
	v, err := IndexValuesOf(arrayJob("1-4", 4), none)
	if err != nil || v.Words(2) != "task=3" || v.Words(4) != "" || v.Words(-1) != "" || v.Until() != 4 || !slices.Equal(v.Names(), []string{"task"}) {
		t.Errorf("%v %v", v, err)
	}
	for _, j := range []*batchv1.Job{{}, arrayJob("x", 4)} {
		if v, err := IndexValuesOf(j, none); v != nil || err != nil {
			t.Errorf("%v %v", v, err)
		}
	}
	// One that has values as well.
	both := sweep(variable("LR", "values", "lr"))
	both.Annotations[ArrayAnnotation] = "1,3"
	data := map[string]string{"0.lr": "0.1", "1.lr": "0.2"}
	v, err = IndexValuesOf(both, func(string) (map[string]string, error) { return data, nil })
	if err != nil || v.Words(1) != "task=3,lr=0.2" || !slices.Equal(v.Names(), []string{"task", "lr"}) {
		t.Errorf("%v %v", v, err)
	}
	if v, err := IndexValuesOf(both, func(string) (map[string]string, error) { return nil, nil }); v != nil || err != nil {
		t.Errorf("without its ConfigMap: %v %v", v, err)
	}

	for text, want := range map[string]string{"3": "task=3", "": "", "1-4": "", "x": ""} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{ArrayAnnotation: text}}}
		if got := IndexWords(PodIndexValues(p, nil)); got != want {
			t.Errorf("a pod with %q: %q", text, got)
		}
	}
	// One variable of a ConfigMap does not make a pod one with values.
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Env: []corev1.EnvVar{variable("A", "", ".a")}}}}}
	if got := PodIndexValues(p, map[string]string{".a": "b"}); got != nil {
		t.Errorf("%v", got)
	}
}

func TestAnArrayIsAsLargeAsItsText(t *testing.T) {
	j := arrayJob("0-99999", 100_000)
	if a := arrayOf(j); len(a) != 1 || a.Tasks() != 100_000 {
		t.Errorf("%d ranges", len(a))
	}
	if n := testing.AllocsPerRun(10, func() { ArrayTask(j, 99_999) }); n > 1 {
		t.Errorf("the task of one index takes %v allocations", n)
	}
}

// An array is read or refused, and the ways to a task agree.
func FuzzArray(f *testing.F) {
	for _, text := range []string{"1-4", "0-15:4", "1,3,7", "7,1-9:4,20-22", "1-", "1:2", "5-1", "1-9:0", "000-2", "0-999999999:999999999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := ParseArray(text)
		j := arrayJob(text, 1)
		if err != nil {
			if arrayOf(j) != nil || len(validateArray(j.Annotations, &j.Spec, nil)) == 0 {
				t.Errorf("%q is taken: %v", text, err)
			}
			return
		}
		n := a.Tasks()
		if n < 1 {
			t.Fatalf("%q has %d tasks", text, n)
		}
		for _, index := range []int64{0, 1, n / 2, n - 1} {
			task, ok := a.Task(int(index))
			if want := index < n; ok != want {
				t.Fatalf("%q: index %d is there: %v", text, index, ok)
			}
			if got := ArrayTask(j, int(index)); ok && got != strconv.FormatInt(task, 10) || !ok && got != "" {
				t.Errorf("%q: index %d is task %d, and its pod %s", text, index, task, got)
			}
			if ok && (task < 0 || task > 999_999_999) {
				t.Errorf("%q: task %d", text, task)
			}
		}
		if _, ok := a.Task(int(n)); ok {
			t.Errorf("%q has a task behind the last one", text)
		}
	})
}
