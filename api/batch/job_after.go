package batch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

const (
	// AfterAnnotation names the Jobs and JobSets after which a suspended Job or JobSet starts, such as "prep,check:any,jobsets/train"
	// (parseAfter). A cluster leaves it suspended.
	AfterAnnotation = "jobd.dev/after"
	// ResumedAnnotation is when a Job that was held back was resumed, by jobd or by somebody. From then on it is held back no more:
	// whoever suspends it means it. Only the server writes it: what clients send is ignored, as for the status.
	ResumedAnnotation = "jobd.dev/resumed-at"

	// maxNeeds is for how many others one may wait, each of which is looked up.
	maxNeeds = 32
	// maxNeedsShown is how long the names of those may be in a table.
	maxNeedsShown = 40
)

// When a Need is met.
const (
	NeedOK     = "ok"     // the other has completed
	NeedAny    = "any"    // it has ended in whatever way
	NeedFailed = "failed" // it has failed
)

// Need is a Job or a JobSet of the same namespace for which another waits.
type Need struct {
	Name string
	When string // NeedOK, NeedAny or NeedFailed
	// Set says that it is a JobSet.
	Set bool
}

// ofSets comes before the name of a JobSet.
const ofSets = "jobsets/"

// Ref names what is needed as an AfterAnnotation does, and as commands do: prep, jobsets/train.
func (n Need) Ref() string {
	if n.Set {
		return ofSets + n.Name
	}
	return n.Name
}

// Kind is that of what is needed: Job or JobSet.
func (n Need) Kind() string {
	if n.Set {
		return "JobSet"
	}
	return "Job"
}

// parseRef reads what Ref returns. It takes jobs/ before the name of a Job too.
func parseRef(text string) (n Need, ok bool) {
	resource, name, given := strings.Cut(text, "/")
	if !given {
		resource, name = "jobs", text
	}
	switch resource {
	case "jobs", "job":
	case "jobsets", "jobset":
		n.Set = true
	default:
		return n, false
	}
	n.Name = name
	return n, len(utilvalidation.IsDNS1123Subdomain(name)) == 0
}

// parseAfter reads an AfterAnnotation: names of Jobs, or jobsets/ and those of JobSets, separated by commas, each followed by a colon and
// when the need is met, unless that is NeedOK.
func parseAfter(text string) ([]Need, error) {
	var needs []Need
	for part := range strings.SplitSeq(text, ",") {
		ref, when, given := strings.Cut(strings.TrimSpace(part), ":")
		if !given {
			when = NeedOK
		}
		switch when {
		case NeedOK, NeedAny, NeedFailed:
		default:
			return nil, fmt.Errorf(`%q is not known: one of %s, %s, %s, as in "prep:any"`, when, NeedOK, NeedAny, NeedFailed)
		}
		n, ok := parseRef(ref)
		if n.When = when; !ok {
			return nil, fmt.Errorf(`%q is not the name of a Job, nor jobsets/ and that of a JobSet; names are separated by commas, as in "prep,check:any"`, ref)
		}
		if slices.ContainsFunc(needs, func(o Need) bool { return o.Ref() == n.Ref() }) {
			return nil, fmt.Errorf("names %s twice", n.Ref())
		}
		if len(needs) == maxNeeds {
			return nil, fmt.Errorf("must name at most %d Jobs", maxNeeds)
		}
		needs = append(needs, n)
	}
	return needs, nil
}

// After returns the Jobs and JobSets for which a Job or JobSet waits, or has waited; none if its annotation is missing or not valid.
func After(annotations map[string]string) []Need {
	text, ok := annotations[AfterAnnotation]
	if !ok {
		return nil
	}
	needs, err := parseAfter(text)
	if err != nil {
		return nil
	}
	return needs
}

// AwaitsJobs reports whether a Job is suspended until others have ended, when jobd resumes it. It may wait for a time too.
func AwaitsJobs(j *batchv1.Job) bool {
	return j.Annotations[AfterAnnotation] != "" && resumable(j) && len(After(j.Annotations)) > 0
}

// Awaits reports whether a Job is suspended until jobd resumes it: after others, at a time, or both.
func Awaits(j *batchv1.Job) bool { return AwaitsJobs(j) || AwaitsTime(j) }

// resumable reports whether jobd would resume a Job that is held back.
func resumable(j *batchv1.Job) bool {
	return ptr.Deref(j.Spec.Suspend, false) && j.Annotations[ResumedAnnotation] == "" && j.DeletionTimestamp == nil && End(&j.Status) == nil &&
		managedHere(j) && MovingOf(j.Annotations) == nil
}

// Resume resumes a Job that was held back.
func Resume(j *batchv1.Job, now time.Time) {
	j.Spec.Suspend = ptr.To(false)
	j.Generation++
	metav1.SetMetaDataAnnotation(&j.ObjectMeta, ResumedAnnotation, now.UTC().Format(time.RFC3339))
}

// keepResumed keeps ResumedAnnotation of a Job (KeepResumed).
func keepResumed(job, old *batchv1.Job) {
	KeepResumed(&job.ObjectMeta, old.Annotations, Awaits(old) && !ptr.Deref(job.Spec.Suspend, false))
}

// KeepResumed keeps ResumedAnnotation of a Job or JobSet as it is, and sets it when a client resumes one that was held back.
func KeepResumed(of *metav1.ObjectMeta, old map[string]string, resumes bool) {
	if was, ok := old[ResumedAnnotation]; ok {
		metav1.SetMetaDataAnnotation(of, ResumedAnnotation, was)
		return
	}
	delete(of.Annotations, ResumedAnnotation)
	if resumes && HeldBy(of.Annotations) != "" {
		metav1.SetMetaDataAnnotation(of, ResumedAnnotation, time.Now().UTC().Format(time.RFC3339))
	}
}

// validateAfter checks the annotation of a new Job, or of the Jobs of a CronJob. waited says that the Job is not new, and waits no more.
func validateAfter(annotations map[string]string, spec *batchv1.JobSpec, waited bool, path *field.Path) field.ErrorList {
	return ValidateAfter("Job", annotations, waited || ptr.Deref(spec.Suspend, false), path)
}

// ValidateAfter checks the annotation of a Job or a JobSet. held says that that is suspended, or waits no more.
func ValidateAfter(kind string, annotations map[string]string, held bool, path *field.Path) field.ErrorList {
	text, ok := annotations[AfterAnnotation]
	if !ok {
		return nil
	}
	path = path.Key(AfterAnnotation)
	if _, err := parseAfter(text); err != nil {
		return field.ErrorList{field.Invalid(path, text, err.Error())}
	}
	if !held {
		return field.ErrorList{field.Invalid(path, text,
			"needs spec.suspend: true, else the "+kind+" would start at once; jobd resumes it when the others have ended")}
	}
	return nil
}

// validateHoldUpdate refuses a change of an annotation that holds back a Job if it would have no effect, since the Job waits no longer.
// Otherwise the annotation is validated as that of a new Job.
func validateHoldUpdate(annotation string, validate validateHold, job, old *batchv1.Job, path *field.Path) field.ErrorList {
	text, ok := job.Annotations[annotation]
	if was, had := old.Annotations[annotation]; !ok || had && was == text {
		return nil
	}
	if at := old.Annotations[ResumedAnnotation]; at != "" {
		return field.ErrorList{NoEffect("Job", text, at, path.Key(annotation))}
	}
	return validate(job.Annotations, &job.Spec, false, path)
}

// NoEffect refuses an annotation by which a Job or JobSet would be held back that was resumed before.
func NoEffect(kind, text, resumed string, path *field.Path) *field.Error {
	return field.Invalid(path, text, "has no effect any more: the "+kind+" was resumed at "+resumed)
}

// validateHold checks an annotation that holds back a new Job. waited says that the Job is not new, and waits no more.
type validateHold func(annotations map[string]string, spec *batchv1.JobSpec, waited bool, path *field.Path) field.ErrorList

// SuspendsAgain reports whether a change suspends a Job that was held back once.
func SuspendsAgain(job, old *batchv1.Job) bool {
	return old.Annotations[ResumedAnnotation] != "" && ptr.Deref(job.Spec.Suspend, false) && !ptr.Deref(old.Spec.Suspend, false) &&
		HeldBy(job.Annotations) != ""
}

// resumedWarnings warns whoever suspends a Job again that was held back once.
func resumedWarnings(job, old *batchv1.Job) []string {
	if !SuspendsAgain(job, old) || End(&job.Status) != nil {
		return nil
	}
	return []string{SuspendedAgain("Job", job.Annotations, old.Annotations)}
}

// SuspendedAgain warns of what becomes of a Job or JobSet that is suspended again, and was held back once.
func SuspendedAgain(kind string, annotations, old map[string]string) string {
	return "spec.suspend: the " + kind + " was resumed at " + old[ResumedAnnotation] + ", and is held back by " + HeldBy(annotations) +
		" no more: now it stays suspended until somebody resumes it"
}

// heldShown is what a table says of a Job that is held back: until when, and for which others.
func heldShown(j *batchv1.Job, now time.Time) string {
	at, timed := StartAt(j.Annotations)
	needs := needsShown(j)
	switch {
	case !timed:
		return needs
	case needs == "":
		return "At:" + clock(at, now)
	case !at.After(now):
		return needs
	}
	return "At:" + clock(at, now) + "," + needs
}

// needsShown is what a table says of the Jobs that another waits for; empty if there are none.
func needsShown(j *batchv1.Job) string {
	var names []string
	for _, n := range After(j.Annotations) {
		names = append(names, n.Ref())
	}
	if len(names) == 0 {
		return ""
	}
	shown := strings.Join(names, ",")
	if len(shown) > maxNeedsShown {
		shown = shown[:maxNeedsShown-3] + "..."
	}
	return "After:" + shown
}

// Met reports whether a need is met by how its Job has ended: the type of its final condition, or anything else for a Job that
// was deleted before.
func (n Need) Met(end batchv1.JobConditionType) bool {
	switch n.When {
	case NeedOK:
		return end == batchv1.JobComplete
	case NeedFailed:
		return end == batchv1.JobFailed
	}
	return true
}

// Words says what a need waits for: "prep to complete".
func (n Need) Words() string { return n.Ref() + " to " + n.Verb() }

// Verb says what the other has to do: "complete".
func (n Need) Verb() string {
	return map[string]string{NeedOK: "complete", NeedAny: "end", NeedFailed: "fail"}[n.When]
}

// errNoNeeds is what FormatAfter returns for a list that names nothing.
var errNoNeeds = errors.New("names no Job")

// FormatAfter returns an AfterAnnotation of what a command line has named, in parts that may have several each.
func FormatAfter(parts []string) (string, error) {
	text := strings.Join(parts, ",")
	if strings.Trim(text, ", ") == "" {
		return "", errNoNeeds
	}
	needs, err := parseAfter(text)
	if err != nil {
		return "", err
	}
	var out []string
	for _, n := range needs {
		if n.When == NeedOK {
			out = append(out, n.Ref())
		} else {
			out = append(out, n.Ref()+":"+n.When)
		}
	}
	return strings.Join(out, ","), nil
}
