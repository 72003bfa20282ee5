package batch

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/schedule"
)

// Annotations of a CronJob that say more about its times than its spec can.
const (
	// SchedulesAnnotation are further schedules beside spec.schedule, separated by semicolons. A time of several of them
	// makes one run.
	SchedulesAnnotation = "jobd.dev/schedules"
	// JitterAnnotation is a duration within which the CronJob has a place of its own, by a hash of its namespace and name: its
	// runs start by as much later than their times.
	JitterAnnotation = "jobd.dev/jitter"
	// MissedAnnotation says what becomes of times at which no Job could be started: a MissedPolicy.
	MissedAnnotation = "jobd.dev/missed"
	// MissedMaxAnnotation is how many missed times MissedAll makes up for: the latest ones.
	MissedMaxAnnotation = "jobd.dev/missed-max"
)

// MissedPolicy is what becomes of missed times. Without one it is as in a cluster: the latest is made up for, and
// startingDeadlineSeconds is for all of them.
type MissedPolicy string

const (
	MissedLatest MissedPolicy = "latest" // one run for the latest of them
	MissedAll    MissedPolicy = "all"    // one for each, in their order
	MissedNone   MissedPolicy = "none"   // none that would start more than a minute late, unless startingDeadlineSeconds says otherwise
)

const (
	maxSchedules     = 10 // beside spec.schedule
	maxJitter        = 24 * time.Hour
	defaultMissedMax = 10
	maxMissedMax     = 100
)

// CronJobTimes is what the annotations of a CronJob say about its times. The zero value is that of a CronJob without them.
type CronJobTimes struct {
	Further   []string // schedules beside spec.schedule
	Jitter    time.Duration
	Offset    time.Duration // within Jitter: by how much later than its scheduled time a run starts
	Missed    MissedPolicy
	MissedMax int // of MissedAll
}

// CronJobTimesOf returns what the annotations of a CronJob say about its times, or what is wrong with them.
func CronJobTimesOf(cj *batchv1.CronJob) (CronJobTimes, error) {
	t, errs := readCronJobTimes(cj)
	return t, errs.ToAggregate()
}

func readCronJobTimes(cj *batchv1.CronJob) (t CronJobTimes, errs field.ErrorList) {
	path := field.NewPath("metadata", "annotations")
	invalid := func(name, message string) {
		errs = append(errs, field.Invalid(path.Key(name), cj.Annotations[name], message))
	}
	if list, ok := cj.Annotations[SchedulesAnnotation]; ok {
		var err error
		if t.Further, err = furtherSchedules(&cj.Spec, list); err != nil {
			invalid(SchedulesAnnotation, err.Error())
		}
	}
	if jitter, ok := cj.Annotations[JitterAnnotation]; ok {
		var err error
		if t.Jitter, err = time.ParseDuration(jitter); err != nil || t.Jitter < time.Second || t.Jitter > maxJitter {
			invalid(JitterAnnotation, fmt.Sprintf(`must be a duration such as "10m", from 1s to %v`, maxJitter))
		}
		t.Offset = offset(cj.Namespace, cj.Name, t.Jitter)
	}
	policy, ok := cj.Annotations[MissedAnnotation]
	t.Missed = MissedPolicy(policy)
	switch {
	case ok && t.Missed != MissedLatest && t.Missed != MissedAll && t.Missed != MissedNone:
		errs = append(errs, field.NotSupported(path.Key(MissedAnnotation), policy, []MissedPolicy{MissedLatest, MissedAll, MissedNone}))
	case t.Missed == MissedAll && cj.Spec.ConcurrencyPolicy == batchv1.ReplaceConcurrent:
		invalid(MissedAnnotation, "cannot be combined with spec.concurrencyPolicy Replace: each run would end the one before it; use latest, or Forbid")
	case t.Missed == MissedAll && everyOf(cj.Spec.Schedule) > 0 && everyOf(cj.Spec.Schedule) < time.Minute:
		invalid(MissedAnnotation, "cannot be combined with @every below a minute, of which no more than one Job a minute is started")
	case t.Missed == MissedAll:
		t.MissedMax = defaultMissedMax
	}
	if most, ok := cj.Annotations[MissedMaxAnnotation]; ok {
		n, err := strconv.Atoi(most)
		switch {
		case err != nil || n < 1 || n > maxMissedMax:
			invalid(MissedMaxAnnotation, fmt.Sprintf("must be a number from 1 to %d", maxMissedMax))
		case t.Missed != MissedAll:
			invalid(MissedMaxAnnotation, "needs "+MissedAnnotation+": all")
		default:
			t.MissedMax = n
		}
	}
	return t, errs
}

func furtherSchedules(spec *batchv1.CronJobSpec, list string) (all []string, err error) {
	if len(list) > maxSchedule {
		return nil, fmt.Errorf("must be no more than %d bytes", maxSchedule)
	}
	for text := range strings.SplitSeq(list, ";") {
		if text = strings.TrimSpace(text); text != "" {
			all = append(all, text)
		}
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf(`must be schedules separated by semicolons, such as "30 6 * * 1-5; 0 9 * * 6"`)
	case len(all) > maxSchedules:
		return nil, fmt.Errorf("must be no more than %d schedules, and spec.schedule", maxSchedules)
	case everyOf(spec.Schedule) > 0:
		return nil, fmt.Errorf("cannot be combined with @every in spec.schedule, whose times are counted from the last run")
	}
	for _, text := range all {
		s, err := schedule.Parse(text)
		switch {
		case strings.Contains(text, "TZ"):
			return nil, fmt.Errorf("cannot use TZ or CRON_TZ: all schedules are in spec.timeZone")
		case err != nil:
			return nil, fmt.Errorf("%q: %w", text, err)
		case s.Every() > 0:
			return nil, fmt.Errorf("%q: cannot be @every, whose times are counted from the last run", text)
		}
	}
	return all, nil
}

// everyOf returns the time between two times of a schedule if it is an @every; otherwise 0.
func everyOf(text string) time.Duration {
	s, err := schedule.Parse(text)
	if err != nil {
		return 0
	}
	return s.Every()
}

// offset returns the place of a name within a duration, in whole seconds and less than that: always the same one.
func offset(namespace, name string, within time.Duration) time.Duration {
	seconds := uint64(within / time.Second)
	if seconds == 0 || within < 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return time.Duration(binary.BigEndian.Uint64(sum[:8])%seconds) * time.Second
}

// validateCronJobTimes checks the annotations about times, unless they and what they are for are as they were.
func validateCronJobTimes(cj, old *batchv1.CronJob) field.ErrorList {
	_, errs := readCronJobTimes(cj)
	if len(errs) == 0 || old == nil {
		return errs
	}
	if cj.Spec.Schedule != old.Spec.Schedule || cj.Spec.ConcurrencyPolicy != old.Spec.ConcurrencyPolicy {
		return errs
	}
	for _, name := range [...]string{SchedulesAnnotation, JitterAnnotation, MissedAnnotation, MissedMaxAnnotation} {
		is, ok := cj.Annotations[name]
		if was, had := old.Annotations[name]; ok != had || is != was {
			return errs
		}
	}
	return nil
}

// InTimeZone returns a schedule of a CronJob as it is to be parsed: in CronJobSpec.TimeZone, or in the zone of the machine if there is
// none.
func InTimeZone(spec *batchv1.CronJobSpec, text string) string {
	if spec.TimeZone == nil || strings.Contains(text, "TZ") {
		return text
	}
	return "TZ=" + *spec.TimeZone + " " + text
}

// Schedules returns the times of all schedules of a CronJob.
func (t *CronJobTimes) Schedules(spec *batchv1.CronJobSpec) (schedule.Union, error) {
	texts := []string{InTimeZone(spec, spec.Schedule)}
	for _, text := range t.Further {
		texts = append(texts, InTimeZone(spec, text))
	}
	return schedule.ParseUnion(texts...)
}

// MaxHeld returns how many runs of a CronJob may be HeldBack at a time until no more are started: as many as are made up for.
func (t *CronJobTimes) MaxHeld() int {
	if t.Missed == MissedAll {
		return t.MissedMax
	}
	return defaultMissedMax
}

// OneByOne reports whether each run of a CronJob has to wait until the one before it has ended. That is so with MissedAll, too, if its
// Jobs are in a concurrency group with a policy by which they would end each other, or themselves. ofNamespace is that of the group
// of Jobs that name none; empty for none.
func OneByOne(cj *batchv1.CronJob, ofNamespace string) bool {
	policy := ofNamespace
	if c, ok := core.ConcurrencyOf(cj.Spec.JobTemplate.Annotations); ok {
		policy = c.Policy
	}
	return cj.Spec.ConcurrencyPolicy == batchv1.ForbidConcurrent || MissedPolicy(cj.Annotations[MissedAnnotation]) == MissedAll &&
		(policy == core.ReplaceConcurrent || policy == core.ForbidConcurrent)
}

// missedWarnings say what a group may do to runs of which each is to be made up for.
func missedWarnings(cj *batchv1.CronJob) []string {
	c, ok := core.ConcurrencyOf(cj.Spec.JobTemplate.Annotations)
	if !ok || c.Policy == core.QueueConcurrent || MissedPolicy(cj.Annotations[MissedAnnotation]) != MissedAll {
		return nil
	}
	does := "a run fails if another Job of the group %s runs at that time"
	if c.Policy == core.ReplaceConcurrent {
		does = "a run still fails when a later Job of the group %s replaces it"
	}
	return []string{fmt.Sprintf("metadata.annotations[%s]: the runs start one after another, since spec.jobTemplate says %s: %s; "+does,
		MissedAnnotation, core.ConcurrencyPolicyAnnotation, c.Policy, c.Group)}
}

// From returns the time after which the next scheduled time of a CronJob is looked for.
func From(cj *batchv1.CronJob) time.Time {
	if last := cj.Status.LastScheduleTime; last != nil {
		return last.Time
	}
	return cj.CreationTimestamp.Time
}

// Served reports whether a time is in the minute for which the last Job was started. The name of a Job contains the minute,
// so there is one Job a minute at most, which only matters to @every.
func Served(cj *batchv1.CronJob, at time.Time) bool {
	last := cj.Status.LastScheduleTime
	return last != nil && !at.IsZero() && at.Unix()/60 == last.Unix()/60
}

// ScheduledAt returns for which time a CronJob has started a Job, as RFC 3339 in its time zone; empty for other Jobs.
func ScheduledAt(annotations map[string]string) string {
	text := annotations[batchv1.CronJobScheduledTimestampAnnotation]
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		return "" // somebody else has written it
	}
	return text
}

// NextAfter returns the first scheduled time of a CronJob after t for which a Job will be started; zero if none comes within five
// years.
func NextAfter(u schedule.Union, cj *batchv1.CronJob, t time.Time) time.Time {
	at := u.Next(t)
	for Served(cj, at) { // no more than 60 times, of @every 1s
		at = u.Next(at)
	}
	return at
}

// NextStart returns when a CronJob starts its next Job whose time has not come yet; zero if never.
func NextStart(cj *batchv1.CronJob, now time.Time) time.Time {
	t, err := CronJobTimesOf(cj)
	if err != nil {
		return time.Time{}
	}
	u, err := t.Schedules(&cj.Spec)
	if err != nil {
		return time.Time{}
	}
	after, clock := From(cj), now.Add(-t.Offset)
	switch {
	case u.Every() > 0:
		if last := u.Last(after, clock); !last.IsZero() {
			after = last
		}
	case clock.After(after):
		after = clock
	}
	if at := NextAfter(u, cj, after); !at.IsZero() {
		return at.Add(t.Offset)
	}
	return time.Time{}
}
