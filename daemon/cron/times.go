package cron

import (
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/api/batch"
)

// Times are the times of a CronJob's schedules around now. A Job starts Offset later than its time.
type Times struct {
	// Due is the scheduled time whose Job is to be started next: the latest that has come and has no Job yet or, with
	// jobd.dev/missed=all, the first of those to be made up for. Zero for none.
	Due time.Time
	// Waiting is how many times have come for which a Job is to be started.
	Waiting int
	// Expired says that Due is longer ago than Late allows, so that it is missed for good.
	Expired bool
	// Expires is when Due will be missed for good; zero for never.
	Expires time.Time
	// Late is how late a Job may start, if Expires is not zero.
	Late time.Duration
	// Next is the first scheduled time after those that have come; zero if none comes within five years.
	Next time.Time
	// MaxHeld is how many Jobs may be held back before they start until no more are started.
	MaxHeld int
	// Offset is by how much later than its scheduled time a Job starts, by jobd.dev/jitter.
	Offset time.Duration
}

// Starts returns when the Job of Next starts.
func (t *Times) Starts() time.Time {
	if t.Next.IsZero() {
		return t.Next
	}
	return t.Next.Add(t.Offset)
}

// TimesOf returns the times of a CronJob's schedules, which have been the same since that time; zero: always. An error says
// why it has none.
func TimesOf(cj *batchv1.CronJob, since, now time.Time) (Times, error) {
	if _, err := zone(&cj.Spec); err != nil {
		return Times{}, err
	}
	said, err := batch.CronJobTimesOf(cj)
	if err != nil {
		return Times{}, err
	}
	p, err := planOf(cj, said)
	if err != nil {
		return Times{}, err
	}
	clock := now.Add(-p.Offset)
	t := Times{Due: p.due(cj, clock), Offset: p.Offset, MaxHeld: p.MaxHeld()}
	if t.Due.IsZero() {
		t.Next = batch.NextAfter(p.Union, cj, batch.From(cj))
	} else {
		t.Next = p.Next(t.Due)
	}
	if t.Due.Before(since) {
		t.Due = time.Time{}
	}
	if t.Due.IsZero() {
		return t, nil
	}
	t.Waiting = 1
	late, limited := p.lateness(&cj.Spec)
	if p.Missed == batch.MissedAll {
		from := since
		if earliest := clock.Add(-late).Truncate(time.Second); limited && earliest.After(from) {
			from = earliest
		}
		if times, _ := p.Newest(batch.From(cj), from, clock, p.MissedMax); len(times) > 0 {
			t.Due, t.Waiting = times[0], len(times)
		}
	}
	if limited {
		t.Late = late
		t.Expires = t.Due.Add(p.Offset + late)
		t.Expired = t.Expires.Before(now.Truncate(time.Second))
	}
	return t, nil
}
