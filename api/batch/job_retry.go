package batch

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/indexes"
	"github.com/jobd/jobd/internal/quantity"
)

const (
	// AttemptsAnnotation holds the history of a Job that was retried: the attempts before the current one, as a JSON list
	// of Attempt, oldest first. Only RetryJob writes it: what clients send is ignored, as for the status.
	AttemptsAnnotation = "jobd.dev/attempts"
	// AttemptAnnotation is the number of the attempt that a pod belongs to, if that is not the first.
	AttemptAnnotation = "jobd.dev/attempt"

	// ManifestHashAnnotation tells what a Job or pod of the directory of manifests (jobd serve --manifests) was applied from: it is
	// applied again only once that has changed.
	ManifestHashAnnotation = "jobd.dev/manifest-hash"

	// maxAttempts is how many attempts are kept. Older ones are dropped, and the others keep their numbers.
	maxAttempts = 20
	// maxAttemptsText is how many bytes all attempts may take together. The API limits the annotations of an object too.
	maxAttemptsText = 64 << 10
	// maxAttemptText is how many bytes are kept of a text in an attempt.
	maxAttemptText = 512
)

// Attempt is how an attempt of a Job ended that was retried afterwards.
type Attempt struct {
	Attempt   int          `json:"attempt"` // from 1 on
	StartTime *metav1.Time `json:"startTime,omitempty"`
	EndTime   metav1.Time  `json:"endTime"`
	// Reason and Message are those of the condition Failed.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Succeeded, Failed and FailedIndexes are those of the status. A later attempt keeps what has succeeded.
	Succeeded     int32  `json:"succeeded"`
	Failed        int32  `json:"failed"`
	FailedIndexes string `json:"failedIndexes,omitempty"`
	// RetriedAt and RetriedBy say when the next attempt was asked for, and by whom.
	RetriedAt metav1.Time `json:"retriedAt"`
	RetriedBy string      `json:"retriedBy,omitempty"`
	// Changes are what the next attempt has that this one had not, in words.
	Changes []string `json:"changes,omitempty"`
}

// Attempts returns the attempts of a Job before the one that runs now; none for a Job that was never retried.
func Attempts(annotations map[string]string) []Attempt {
	var all []Attempt
	if text := annotations[AttemptsAnnotation]; text == "" || json.Unmarshal([]byte(text), &all) != nil {
		return nil
	}
	return all
}

// AttemptOf returns the number of the attempt that a Job is in: 1, or more after a retry.
func AttemptOf(annotations map[string]string) int {
	if all := Attempts(annotations); len(all) > 0 {
		return all[len(all)-1].Attempt + 1
	}
	return 1
}

// PodAttempt returns the number of the attempt of its Job that a pod belongs to.
func PodAttempt(annotations map[string]string) int {
	if n, err := strconv.Atoi(annotations[AttemptAnnotation]); err == nil && n > 1 {
		return n
	}
	return 1
}

// Retry is the body of a POST to jobs/NAME/retry.
type Retry struct {
	// Containers are what changes in the pods of the next attempt.
	Containers []ContainerRetry `json:"containers,omitempty"`
	// Deadline is how long the Job may run (spec.activeDeadlineSeconds), and PodDeadline how long each of its pods may: a
	// duration ("90m"), or a factor ("2x") of what it is. What is empty stays.
	Deadline    string `json:"deadline,omitempty"`
	PodDeadline string `json:"podDeadline,omitempty"`
	// Indexes are those that run again ("1,3-5"), of a Job with backoffLimitPerIndex; all that have not succeeded if it is empty. The
	// others that have not succeeded count as failed.
	Indexes string `json:"indexes,omitempty"`
}

// ContainerRetry is what changes of a container. What is empty stays.
type ContainerRetry struct {
	// Name is that of a container or init container; if it is empty, the pod's only container.
	Name string `json:"name,omitempty"`
	// Memory and CPU are a quantity ("4Gi", "500m") for the limit, with the request in proportion, or a factor for both
	// ("2x", "1.5x"). A container without either gets both.
	Memory string `json:"memory,omitempty"`
	CPU    string `json:"cpu,omitempty"`
	Image  string `json:"image,omitempty"`
}

// RetryJob begins the next attempt of a Job that has failed: what is missing runs again, what has succeeded stays
// (JobStatus.Succeeded and CompletedIndexes), except in a Job without completions, which is a work queue. Everything that
// counts failures or time begins anew: JobStatus.Failed and FailedIndexes, the start time and with it the deadline, and the
// time to live, since the Job is no longer finished.
// The attempt that has ended is added to AttemptsAnnotation. A cluster has no such request: its conditions Failed and
// FailureTarget are final.
func RetryJob(j *batchv1.Job, ask Retry, by string, now time.Time) error {
	end := failedCondition(j)
	refuse := func(why string) error {
		return apierrors.NewConflict(batchv1.Resource("jobs"), j.Name, errors.New(why))
	}
	set, _ := SetOf(j)
	switch {
	case j.DeletionTimestamp != nil:
		return refuse("the Job is being deleted")
	case set != "":
		return refuse("the Job belongs to the JobSet " + set + ", which would end another attempt: " + SetIsFinal)
	case ptr.Deref(j.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName:
		return refuse("another controller manages the Job (spec.managedBy): " + *j.Spec.ManagedBy)
	case conditionTrue(j.Status.Conditions, batchv1.JobComplete):
		return refuse("the Job is complete, so nothing is left to run again")
	case end == nil:
		return refuse("the Job has not finished")
	}
	changes, err := applyRetry(j, ask)
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
	last := Attempt{
		Attempt: AttemptOf(j.Annotations), StartTime: s.StartTime, EndTime: end.LastTransitionTime,
		Reason: cut(end.Reason), Message: cut(end.Message),
		Succeeded: s.Succeeded, Failed: s.Failed, FailedIndexes: cut(ptr.Deref(s.FailedIndexes, "")),
		RetriedAt: metav1.NewTime(now.Truncate(time.Second)), RetriedBy: cut(by), Changes: changes,
	}
	text, err := attemptsText(append(Attempts(j.Annotations), last))
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&j.ObjectMeta, AttemptsAnnotation, text)
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
	if !isIndexed(&j.Spec) || j.Spec.BackoffLimitPerIndex == nil {
		return "", refuse("needs an Indexed Job with backoffLimitPerIndex: of any other the Job has failed, and no single index")
	}
	n := ptr.Deref(j.Spec.Completions, 0)
	asked, err := indexes.Parse(only, n)
	if err != nil {
		return "", refuse(err.Error())
	}
	if has, err := indexes.Parse(j.Status.CompletedIndexes, n); err == nil {
		if i, both := indexes.FirstCommon(asked, has); both {
			return "", refuse(fmt.Sprintf("index %d has succeeded", i))
		}
	}
	again := make([]bool, n) // or done
	for _, list := range []string{only, j.Status.CompletedIndexes} {
		for i := range indexes.Of(list, n) {
			again[i] = true
		}
	}
	var left []string
	count := int32(0)
	for first := int32(0); first < n; first++ {
		if again[first] {
			continue
		}
		last := first
		for last+1 < n && !again[last+1] {
			last++
		}
		switch last - first {
		case 0:
			left = append(left, strconv.Itoa(int(first)))
		case 1:
			left = append(left, strconv.Itoa(int(first)), strconv.Itoa(int(last)))
		default:
			left = append(left, fmt.Sprintf("%d-%d", first, last))
		}
		count += last - first + 1
		first = last
	}
	if most := j.Spec.MaxFailedIndexes; most != nil && count > *most {
		return "", refuse(fmt.Sprintf("%d others would stay failed, and maxFailedIndexes is %d: the Job would fail at once", count, *most))
	}
	return strings.Join(left, ","), nil
}

// attemptsText returns the last attempts, as many as may be kept.
func attemptsText(all []Attempt) (string, error) {
	all = all[max(0, len(all)-maxAttempts):]
	for {
		text, err := json.Marshal(all)
		if err != nil || len(text) <= maxAttemptsText || len(all) == 1 {
			return string(text), err
		}
		all = all[1:]
	}
}

func failedCondition(j *batchv1.Job) *batchv1.JobCondition {
	for i := range j.Status.Conditions {
		if c := &j.Status.Conditions[i]; c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// cut returns the beginning of a text that is too long to be kept.
func cut(text string) string {
	if len(text) <= maxAttemptText {
		return text
	}
	return strings.ToValidUTF8(text[:maxAttemptText], "") + "..."
}

// applyRetry changes the template as a Retry asks for, and returns the changes in words.
func applyRetry(j *batchv1.Job, ask Retry) (changes []string, err error) {
	var errs field.ErrorList
	was := j.Spec.Template.DeepCopy()
	asked := map[string]bool{}
	for i := range ask.Containers {
		path := field.NewPath("containers").Index(i)
		c, wrong := retriedContainer(&j.Spec.Template.Spec, ask.Containers[i].Name, path.Child("name"))
		if wrong != nil {
			errs = append(errs, wrong)
			continue
		}
		if asked[c.Name] {
			errs = append(errs, field.Duplicate(path.Child("name"), c.Name))
			continue
		}
		asked[c.Name] = true
		words, wrongs := retryContainer(c, ask.Containers[i], path)
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
		next, err := retryDeadline(*d.seconds, d.value)
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
		errs = append(validateJobSpec(&j.Spec, field.NewPath("spec")),
			core.CheckTemplateGrowth(&j.Spec.Template, was, field.NewPath("spec", "template"))...)
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), j.Name, errs)
	}
	return changes, nil
}

// retryDeadline returns the seconds that a deadline has after it was set to a duration, or multiplied by a factor such as "2x".
func retryDeadline(seconds *int64, value string) (int64, error) {
	if text, ok := strings.CutSuffix(value, "x"); ok {
		factor, err := parseFactor(text)
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

// parseFactor returns the number before the x of a factor.
func parseFactor(text string) (*big.Rat, error) {
	f, err := strconv.ParseFloat(text, 64)
	factor := new(big.Rat)
	switch {
	case err != nil || factor.SetFloat64(f) == nil:
		return nil, errors.New(`must be a factor such as "2x", or a value`)
	case f <= 0 || f > 1000:
		return nil, errors.New("the factor must be above 0 and at most 1000")
	}
	return factor, nil
}

// retriedContainer returns the container of a pod that has a name.
func retriedContainer(spec *corev1.PodSpec, name string, path *field.Path) (*corev1.Container, *field.Error) {
	var names []string
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i], nil
			}
			names = append(names, list[i].Name)
		}
	}
	switch {
	case name != "":
		return nil, field.NotSupported(path, name, names)
	case len(spec.Containers) == 1:
		return &spec.Containers[0], nil
	}
	return nil, field.Required(path, "the pod has several containers: "+strings.Join(names, ", "))
}

func retryContainer(c *corev1.Container, ask ContainerRetry, path *field.Path) (changes []string, errs field.ErrorList) {
	for _, r := range []struct {
		name  corev1.ResourceName
		value string
	}{{corev1.ResourceMemory, ask.Memory}, {corev1.ResourceCPU, ask.CPU}} {
		if r.value == "" {
			continue
		}
		before := resourceWords(c, r.name)
		if err := setResource(c, r.name, r.value); err != nil {
			errs = append(errs, field.Invalid(path.Child(string(r.name)), r.value, err.Error()))
		} else if after := resourceWords(c, r.name); after != before {
			changes = append(changes, fmt.Sprintf("%s of container %s: %s instead of %s", r.name, c.Name, after, before))
		}
	}
	if ask.Image != "" && ask.Image != c.Image {
		changes = append(changes, cut(fmt.Sprintf("image of container %s: %s instead of %s", c.Name, ask.Image, c.Image)))
		c.Image = ask.Image
	}
	return changes, errs
}

// resourceWords says how much of a resource a container has.
func resourceWords(c *corev1.Container, name corev1.ResourceName) string {
	limit, limited := c.Resources.Limits[name]
	request, requested := c.Resources.Requests[name]
	switch {
	case limited && requested && limit.Cmp(request) != 0:
		return fmt.Sprintf("%s (request %s)", limit.String(), request.String())
	case limited:
		return limit.String()
	case requested:
		return "request " + request.String()
	}
	return "none"
}

// setResource sets the limit of a resource to a quantity, with the request in proportion, or multiplies both by a factor
// such as "2x".
func setResource(c *corev1.Container, name corev1.ResourceName, value string) error {
	limit, limited := c.Resources.Limits[name]
	request, requested := c.Resources.Requests[name]
	factor := new(big.Rat)
	if text, ok := strings.CutSuffix(value, "x"); ok {
		var err error
		if factor, err = parseFactor(text); err != nil {
			return err
		}
		if !limited && !requested {
			return fmt.Errorf("container %s has neither a limit nor a request that could be multiplied: give a quantity", c.Name)
		}
	} else {
		q, err := quantity.Parse(value)
		switch {
		case err != nil:
			return errors.New(`must be a quantity such as "4Gi" or "500m", or a factor such as "2x"`)
		case q.Sign() <= 0:
			return errors.New("must be above 0")
		case !limited && !requested:
			setQuantity(&c.Resources.Limits, name, q)
			setQuantity(&c.Resources.Requests, name, q)
			return nil
		}
		was := limit
		if !limited {
			was = request
		}
		if was.IsZero() {
			return fmt.Errorf("container %s has 0 of it, so the other value cannot follow in proportion", c.Name)
		}
		factor.Quo(new(big.Rat).SetInt64(milli(q)), new(big.Rat).SetInt64(milli(was)))
	}
	if limited {
		setQuantity(&c.Resources.Limits, name, scaled(limit, factor, name))
	}
	if requested {
		setQuantity(&c.Resources.Requests, name, scaled(request, factor, name))
	}
	return nil
}

func setQuantity(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	next := corev1.ResourceList{}
	for n, v := range *list {
		next[n] = v
	}
	next[name] = q
	*list = next
}

// milli returns a quantity in thousandths, or the most that there is.
func milli(q resource.Quantity) int64 { return q.ScaledValue(resource.Milli) }

// scaled multiplies a quantity: CPU is rounded up to thousandths, anything else to whole units.
func scaled(q resource.Quantity, factor *big.Rat, name corev1.ResourceName) resource.Quantity {
	unit := resource.Scale(0)
	if name == corev1.ResourceCPU {
		unit = resource.Milli
	}
	product := new(big.Rat).Mul(new(big.Rat).SetInt64(q.ScaledValue(unit)), factor)
	n, rest := new(big.Int).QuoRem(product.Num(), product.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	value := int64(1<<63 - 1)
	if n.IsInt64() {
		value = n.Int64()
	}
	out := resource.NewScaledQuantity(value, unit)
	out.Format = q.Format
	return *out
}
