// Package retry begins another attempt of a Job that has failed, with what is to be different in it: resources and images of containers,
// deadlines, and which indexes run again. That is jobd's own: a cluster has no such request.
//
// In come a Job and a Request; the Job is changed in place, or there is an error that the API answers with. How many attempts a Job has
// had is in its annotations, which package batch reads.
package retry

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/indexes"
	"github.com/jobd/jobd/internal/quantity"
)

const (
	// maxAttempts is how many attempts are kept. Older ones are dropped, and the others keep their numbers.
	maxAttempts = 20
	// maxAttemptsText is how many bytes all attempts may take together. The API limits the annotations of an object too.
	maxAttemptsText = 64 << 10
	// maxAttemptText is how many bytes are kept of a text in an attempt.
	maxAttemptText = 512
)

// Request is the body of a POST to jobs/NAME/retry.
type Request struct {
	// Containers are what changes in the pods of the next attempt.
	Containers []Container `json:"containers,omitempty"`
	// Deadline is how long the Job may run (spec.activeDeadlineSeconds), and PodDeadline how long each of its pods may: a
	// duration ("90m"), or a factor ("2x") of what it is. What is empty stays.
	Deadline    string `json:"deadline,omitempty"`
	PodDeadline string `json:"podDeadline,omitempty"`
	// Indexes are those that run again ("1,3-5"), of a Job with backoffLimitPerIndex; all that have not succeeded if it is empty. The
	// others that have not succeeded count as failed.
	Indexes string `json:"indexes,omitempty"`
}

// Container is what changes of a container. What is empty stays.
type Container struct {
	// Name is that of a container or init container; if it is empty, the pod's only container.
	Name string `json:"name,omitempty"`
	// Memory and CPU are a quantity ("4Gi", "500m") for the limit, with the request in proportion, or a factor for both
	// ("2x", "1.5x"). A container without either gets both.
	Memory string `json:"memory,omitempty"`
	CPU    string `json:"cpu,omitempty"`
	Image  string `json:"image,omitempty"`
}

// Begin begins the next attempt of a Job that has failed: what is missing runs again, what has succeeded stays
// (JobStatus.Succeeded and CompletedIndexes), except in a Job without completions, which is a work queue. Everything that
// counts failures or time begins anew: JobStatus.Failed and FailedIndexes, the start time and with it the deadline, and the
// time to live, since the Job is no longer finished.
// The attempt that has ended is added to batch.AttemptsAnnotation. A cluster has no such request: its conditions Failed and
// FailureTarget are final.
func Begin(j *batchv1.Job, ask Request, by string, now time.Time) error {
	end := batch.End(&j.Status)
	refuse := func(why string) error {
		return apierrors.NewConflict(batchv1.Resource("jobs"), j.Name, errors.New(why))
	}
	set, _ := batch.SetOf(j)
	switch {
	case j.DeletionTimestamp != nil:
		return refuse("the Job is being deleted")
	case set != "":
		return refuse("the Job belongs to the JobSet " + set + ", which would end another attempt: " + batch.SetIsFinal)
	case !clusters.ManagedHere(j):
		return refuse("another controller manages the Job (spec.managedBy): " + *j.Spec.ManagedBy)
	case end != nil && end.Type == batchv1.JobComplete:
		return refuse("the Job is complete, so nothing is left to run again")
	case end == nil:
		return refuse("the Job has not finished")
	}
	changes, err := apply(j, ask)
	if err != nil {
		return err
	}
	others, err := leftFailed(j, ask.Indexes)
	if err != nil {
		return err
	}
	if ask.Indexes != "" {
		changes = append(changes, cut("only index "+ask.Indexes))
	}
	s := &j.Status
	last := batch.Attempt{
		Attempt: batch.AttemptOf(j.Annotations), StartTime: s.StartTime, EndTime: end.LastTransitionTime,
		Reason: cut(end.Reason), Message: cut(end.Message),
		Succeeded: s.Succeeded, Failed: s.Failed, FailedIndexes: cut(ptr.Deref(s.FailedIndexes, "")),
		RetriedAt: metav1.NewTime(now.Truncate(time.Second)), RetriedBy: cut(by), Changes: changes,
	}
	text, err := attemptsText(append(batch.Attempts(j.Annotations), last))
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&j.ObjectMeta, batch.AttemptsAnnotation, text)
	s.Conditions = slices.DeleteFunc(slices.Clone(s.Conditions), func(c batchv1.JobCondition) bool {
		return c.Type == batchv1.JobFailed || c.Type == batchv1.JobFailureTarget
	})
	s.StartTime, s.Failed = nil, 0
	if s.FailedIndexes != nil {
		s.FailedIndexes = ptr.To(others)
	}
	if j.Spec.Completions == nil {
		s.Succeeded = 0 // of a work queue the first success is that of the whole Job: no pod would be started
	}
	return nil
}

// leftFailed returns the indexes that stay failed when only some run again: all others that have not succeeded.
func leftFailed(j *batchv1.Job, only string) (string, error) {
	if only == "" {
		return "", nil
	}
	path := field.NewPath("indexes")
	refuse := func(why string) error {
		return apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), j.Name, field.ErrorList{field.Invalid(path, cut(only), why)})
	}
	if ptr.Deref(j.Spec.CompletionMode, "") != batchv1.IndexedCompletion || j.Spec.BackoffLimitPerIndex == nil {
		return "", refuse("needs an Indexed Job with backoffLimitPerIndex: of any other the Job has failed, and no single index")
	}
	n := ptr.Deref(j.Spec.Completions, 0)
	asked, err := indexes.Parse(only, n)
	if err != nil {
		return "", refuse(err.Error())
	}
	has, err := indexes.Parse(j.Status.CompletedIndexes, n)
	if err != nil {
		has = nil
	}
	if i, both := indexes.FirstCommon(asked, has); both {
		return "", refuse(fmt.Sprintf("index %d has succeeded", i))
	}
	// A Job may have two thousand million indexes, so they are never looked at one by one.
	left := indexes.Others(n, asked, has)
	count := indexes.Count(left)
	if most := j.Spec.MaxFailedIndexes; most != nil && count > int64(*most) {
		return "", refuse(fmt.Sprintf("%d others would stay failed, and maxFailedIndexes is %d: the Job would fail at once", count, *most))
	}
	return indexes.Text(left), nil
}

// attemptsText returns the last attempts, as many as may be kept.
func attemptsText(all []batch.Attempt) (string, error) {
	all = all[max(0, len(all)-maxAttempts):]
	for {
		text, err := json.Marshal(all)
		if err != nil || len(text) <= maxAttemptsText || len(all) == 1 {
			return string(text), err
		}
		all = all[1:]
	}
}

// cut returns the beginning of a text that is too long to be kept.
func cut(text string) string {
	if len(text) <= maxAttemptText {
		return text
	}
	return strings.ToValidUTF8(text[:maxAttemptText], "") + "..."
}

// apply changes the template as a Request asks for, and returns the changes in words.
func apply(j *batchv1.Job, ask Request) (changes []string, err error) {
	var errs field.ErrorList
	was := j.Spec.Template.DeepCopy()
	asked := map[string]bool{}
	for i := range ask.Containers {
		path := field.NewPath("containers").Index(i)
		c, wrong := retried(&j.Spec.Template.Spec, ask.Containers[i].Name, path.Child("name"))
		if wrong != nil {
			errs = append(errs, wrong)
			continue
		}
		if asked[c.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), c.Name))
			continue
		}
		asked[c.Name] = true
		words, wrongs := change(c, ask.Containers[i], path)
		changes, errs = append(changes, words...), append(errs, wrongs...)
	}
	for _, d := range []struct {
		path, of, value string
		seconds         **int64
	}{
		{"deadline", "the Job", ask.Deadline, &j.Spec.ActiveDeadlineSeconds},
		{"podDeadline", "each pod", ask.PodDeadline, &j.Spec.Template.Spec.ActiveDeadlineSeconds},
	} {
		if d.value == "" {
			continue
		}
		next, err := deadline(*d.seconds, d.value)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(d.path), d.value, err.Error()))
			continue
		}
		if before := *d.seconds; before == nil || *before != next {
			changes = append(changes, fmt.Sprintf("deadline of %s: %s instead of %s", d.of, deadlineWords(&next), deadlineWords(before)))
			*d.seconds = &next
		}
	}
	if len(errs) == 0 && len(changes) > 0 {
		j.Generation++
		errs = append(batch.ValidateJobSpec(&j.Spec, field.NewPath("spec")),
			core.CheckTemplateGrowth(&j.Spec.Template, was, field.NewPath("spec", "template"))...)
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), j.Name, errs)
	}
	return changes, nil
}

// deadline returns the seconds that a deadline has after it was set to a duration, or multiplied by a factor such as "2x".
func deadline(seconds *int64, value string) (int64, error) {
	if text, ok := strings.CutSuffix(value, "x"); ok {
		factor, err := quantity.Factor(text)
		switch {
		case err != nil:
			return 0, err
		case seconds == nil:
			return 0, errors.New("there is no deadline that could be multiplied: give a duration")
		}
		product := new(big.Rat).Mul(new(big.Rat).SetInt64(*seconds), factor)
		n := new(big.Int).Quo(product.Num(), product.Denom())
		if !product.IsInt() {
			n.Add(n, big.NewInt(1))
		}
		if !n.IsInt64() {
			return 0, errors.New("that is more than can be held")
		}
		return n.Int64(), nil
	}
	d, err := time.ParseDuration(value)
	switch {
	case err != nil:
		return 0, errors.New(`must be a duration such as "90m" or "36h", or a factor such as "2x"`)
	case d < time.Second || d%time.Second != 0:
		return 0, errors.New("must be a number of whole seconds above 0")
	}
	return int64(d / time.Second), nil
}

func deadlineWords(seconds *int64) string {
	switch {
	case seconds == nil:
		return "none"
	case *seconds > int64(time.Duration(1<<63-1)/time.Second):
		return fmt.Sprintf("%ds", *seconds)
	}
	return (time.Duration(*seconds) * time.Second).String()
}
