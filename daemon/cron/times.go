package cron

import (
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
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

// TimesOf returns the times of a CronJob's schedule. An error says why it has none.
func TimesOf(cj *batchv1.CronJob, now time.Time) (Times, error) {
	if _, err := zone(&cj.Spec); err != nil {
		return Times{}, err
	}
	s, err := cron.ParseStandard(scheduleOf(&cj.Spec))
	if err != nil {
		return Times{}, err
	}
	from := cj.CreationTimestamp.Time
	if last := cj.Status.LastScheduleTime; last != nil {
		from = last.Time
	}
	t := Times{Due: last(s, from, now)}
	if t.Next = s.Next(from); !t.Due.IsZero() {
		t.Next = s.Next(t.Due)
	}
	if limit := cj.Spec.StartingDeadlineSeconds; limit != nil && !t.Due.IsZero() {
		t.Expires = t.Due.Add(podspec.Seconds(ptr.Deref(limit, 0)))
		t.Expired = t.Expires.Before(now.Truncate(time.Second))
	}
	return t, nil
}
