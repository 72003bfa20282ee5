package cron

import (
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/schedule"
)

// manyMissed is the number of missed starts above which something is taken to be wrong.
const manyMissed = 100

// promptly is how late a Job may start of which no missed time is made up for: a restart of the daemon misses nothing.
const promptly = time.Minute

// plan is at which times a CronJob is to have Jobs, and which missed ones are made up for.
type plan struct {
	schedule.Union
	batch.CronJobTimes
}

// planOf returns the plan of a CronJob whose annotations say this about its times.
func planOf(cj *batchv1.CronJob, times batch.CronJobTimes) (*plan, error) {
	u, err := times.Schedules(&cj.Spec)
	return &plan{u, times}, err
}

// scheduleOf returns all schedules of a CronJob with their time zone, in one line. It differs if one of them was changed.
func scheduleOf(cj *batchv1.CronJob) string {
	text := batch.InTimeZone(&cj.Spec, cj.Spec.Schedule)
	if further, ok := cj.Annotations[batch.SchedulesAnnotation]; ok {
		text += "; " + strings.TrimSpace(further)
	}
	return text
}

// due returns the latest time of a CronJob's schedules that is not after now and for which no Job has been started; zero for
// none.
func (p *plan) due(cj *batchv1.CronJob, now time.Time) time.Time {
	at := p.Last(batch.From(cj), now)
	if batch.Served(cj, at) {
		return time.Time{}
	}
	return at
}

// lateness returns how much later than its time a Job may be started; false if it may be at any time.
func (p *plan) lateness(spec *batchv1.CronJobSpec) (time.Duration, bool) {
	switch limit := spec.StartingDeadlineSeconds; {
	case limit != nil:
		return podspec.Seconds(*limit), true
	case p.Missed == batch.MissedNone:
		return promptly, true
	}
	return 0, false
}

// many reports whether a schedule has more than manyMissed times after start and not after now.
func many(u schedule.Union, start, now time.Time) bool {
	if u.Every() > 0 {
		return (now.Unix()-start.Unix())/int64(u.Every()/time.Second) > manyMissed
	}
	n := 0
	for at := u.Next(start); !at.IsZero() && !at.After(now) && n <= manyMissed; at = u.Next(at) {
		n++
	}
	return n > manyMissed
}

// zone returns the time zone in which the times of a CronJob are shown.
func zone(spec *batchv1.CronJobSpec) (*time.Location, error) {
	if spec.TimeZone == nil {
		return time.UTC, nil
	}
	l, err := time.LoadLocation(*spec.TimeZone)
	if err != nil {
		return nil, fmt.Errorf("invalid timeZone: %q: %w", *spec.TimeZone, err)
	}
	return l, nil
}
