package batch

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// ArrayAnnotation has the tasks of an Indexed Job that is the array of a batch system, as Slurm writes them: "1-4", "0-15:4" or "1,3,7".
// Index i is the i-th of them. It only says what is shown beside an index. A pod has it with its own task.
const ArrayAnnotation = "jobd.dev/array"

// taskName is the name that the task has among the values of an index.
const taskName = "task"

// Array is the tasks of an array, in their order.
type Array []TaskRange

// TaskRange is tasks at equal distances. Index is that of the first one.
type TaskRange struct{ First, Step, Count, Index int64 }

// Last returns the last task of the range.
func (r TaskRange) Last() int64 { return r.First + (r.Count-1)*r.Step }

// ParseArray reads the tasks of an array. It does not look whether one is there twice.
func ParseArray(text string) (a Array, err error) {
	index := int64(0)
	for part := range strings.SplitSeq(text, ",") {
		r, err := parseTaskRange(part)
		if err != nil {
			return nil, err
		}
		r.Index = index
		index += r.Count
		a = append(a, r)
	}
	return a, nil
}

// parseTaskRange reads 3, 0-9 or 1-7:2.
func parseTaskRange(text string) (TaskRange, error) {
	r := TaskRange{Step: 1, Count: 1}
	ends, step, stepped := strings.Cut(text, ":")
	first, last, ranged := strings.Cut(ends, "-")
	ok := true
	number := func(text string) int64 {
		n, is := taskNumber(text)
		ok = ok && is
		return n
	}
	r.First = number(first)
	end := r.First
	if ranged {
		end = number(last)
	}
	if stepped {
		r.Step = number(step)
		ok = ok && ranged
	}
	switch {
	case !ok:
		return r, fmt.Errorf("%q are not tasks such as 0-9, 1-7:2 or 1,3,5", text)
	case r.Step == 0:
		return r, fmt.Errorf("%q has a step of 0", text)
	case end < r.First:
		return r, fmt.Errorf("%q goes from %d down to %d", text, r.First, end)
	}
	r.Count = (end-r.First)/r.Step + 1
	return r, nil
}

// taskNumber reads a number of up to 9 digits, and nothing else.
func taskNumber(text string) (int64, bool) {
	if text == "" || len(text) > 9 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// Tasks returns how many tasks there are.
func (a Array) Tasks() int64 {
	if len(a) == 0 {
		return 0
	}
	last := a[len(a)-1]
	return last.Index + last.Count
}

// Task returns the task of an index; false if there is none.
func (a Array) Task(index int) (int64, bool) {
	i := sort.Search(len(a), func(i int) bool { return a[i].Index > int64(index) }) - 1
	if i < 0 || int64(index) >= a.Tasks() {
		return 0, false
	}
	return a[i].First + (int64(index)-a[i].Index)*a[i].Step, true
}

// ArrayTask returns the task of an index of a Job that is an array, as its pod has it in ArrayAnnotation; empty if there is none. Each new
// pod asks, so nothing is built for it.
func ArrayTask(j *batchv1.Job, index int) string {
	text, ok := j.Annotations[ArrayAnnotation]
	if !ok {
		return ""
	}
	for part := range strings.SplitSeq(text, ",") {
		r, err := parseTaskRange(part)
		if err != nil {
			return ""
		}
		if int64(index) < r.Count {
			return strconv.FormatInt(r.First+int64(index)*r.Step, 10)
		}
		index -= int(r.Count)
	}
	return ""
}

// arrayOf returns the array that a Job is; nil if it is none.
func arrayOf(j *batchv1.Job) Array {
	text, ok := j.Annotations[ArrayAnnotation]
	if !ok {
		return nil
	}
	a, err := ParseArray(text)
	if err != nil {
		return nil
	}
	return a
}

// validateArray checks the annotation of a Job, or of the Jobs of a CronJob.
func validateArray(annotations map[string]string, spec *batchv1.JobSpec, path *field.Path) field.ErrorList {
	text, ok := annotations[ArrayAnnotation]
	if !ok {
		return nil
	}
	path = path.Key(ArrayAnnotation)
	a, err := ParseArray(text)
	switch completions := int64(ptr.Deref(spec.Completions, 0)); {
	case err != nil:
		return field.ErrorList{field.Invalid(path, text, err.Error())}
	case !isIndexed(spec):
		return field.ErrorList{field.Invalid(path, text, "needs spec.completionMode: Indexed, since each task is an index")}
	case a.Tasks() != completions:
		return field.ErrorList{field.Invalid(path, text,
			fmt.Sprintf("must have as many tasks as spec.completions says, %d, and has %d", completions, a.Tasks()))}
	}
	return nil
}

// validateArrayUpdate refuses a change of the annotation, and of spec.completions beside it: pods that run have the tasks of before.
func validateArrayUpdate(job, old *batchv1.Job, path *field.Path) field.ErrorList {
	errs := validation.ValidateImmutableField(job.Annotations[ArrayAnnotation], old.Annotations[ArrayAnnotation], path.Key(ArrayAnnotation))
	if len(errs) == 0 && !ptr.Equal(job.Spec.Completions, old.Spec.Completions) {
		return validateArray(job.Annotations, &job.Spec, path)
	}
	return errs
}
