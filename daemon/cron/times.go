package cron

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/schedule"
)

// Times are the times of a CronJob's schedule around now.
type Times struct {
	// Due is the latest scheduled time that is not after now and for which no Job has been started; zero for none.
	Due time.Time
	// Expired says that Due is longer ago than spec.startingDeadlineSeconds allows, so that it is missed for good.
	Expired bool
	// Expires is when Due will be missed for good; zero for never.
	Expires time.Time
	// Next is the first scheduled time after now; zero if none comes within five years.
	Next time.Time
}

// TimesOf returns the times of a CronJob's schedule, which is what it is since that time; zero: always. An error says why
// it has none.
func TimesOf(cj *batchv1.CronJob, since, now time.Time) (Times, error) {
	if _, err := zone(&cj.Spec); err != nil {
		return Times{}, err
	}
	s, err := schedule.Parse(scheduleOf(&cj.Spec))
	if err != nil {
		return Times{}, err
	}
	t := Times{Due: due(s, cj, now)}
	if t.Due.IsZero() {
		t.Next = next(s, cj, from(cj))
	} else {
		t.Next = s.Next(t.Due)
	}
	if t.Due.Before(since) {
		t.Due = time.Time{}
	}
	if limit := cj.Spec.StartingDeadlineSeconds; limit != nil && !t.Due.IsZero() {
		t.Expires = t.Due.Add(podspec.Seconds(ptr.Deref(limit, 0)))
		t.Expired = t.Expires.Before(now.Truncate(time.Second))
	}
	return t, nil
}
