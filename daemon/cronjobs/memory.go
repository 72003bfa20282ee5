package cronjobs

import (
	"encoding/json"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/daemon/cron"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// readSchedule returns what was stored about the schedule of a CronJob; false if nothing was.
func readSchedule(s *store.Snapshot, cj *batchv1.CronJob) (m cron.Memory, ok bool, err error) {
	o, ok := s.Get(objects.Key(objects.Schedules, cj))
	if !ok || o.UID != string(cj.UID) {
		return m, false, nil
	}
	if err := json.Unmarshal(o.Value, &m); err != nil {
		return m, false, fmt.Errorf("%s: %w", o.Key, err)
	}
	return m, true, nil
}

// ScheduledSince returns since when the schedule of a CronJob is what it is; zero for always.
func ScheduledSince(s *store.Snapshot, cj *batchv1.CronJob) (time.Time, error) {
	m, _, err := readSchedule(s, cj)
	return m.Since, err
}

// putSchedule stores what must be remembered about the schedule of a CronJob, unless it is stored already.
func putSchedule(p *loop.Pass, cj *batchv1.CronJob, rec *cron.Record) error {
	m, saved := rec.Memory()
	if saved {
		return nil
	}
	key := objects.Key(objects.Schedules, cj)
	value, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	p.PutStored(store.Object{Key: key, UID: string(cj.UID), Value: value})
	rec.Saved()
	return nil
}
