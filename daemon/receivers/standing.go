package receivers

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/jobd/jobd/api/notices"
	teller "github.com/jobd/jobd/daemon/notices"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// standing stores how a receiver has fared.
func (d *Deliveries) standing(tx *store.Tx, receiver string, p *notify.Pending, end ending, now time.Time) error {
	var s notices.Standing
	if o, ok := tx.Get(teller.StandingKey(receiver)); ok {
		if err := json.Unmarshal(o.Value, &s); err != nil {
			return err
		}
	}
	if end.delivered { // of some recipients, perhaps
		s.Delivered++
		s.DeliveredAt, s.LastError, s.FailedAt = &now, "", nil
	}
	if end.failed != nil {
		s.LastError, s.FailedAt = p.Error, &now
	}
	if end.lost {
		s.Lost++
		s.LostLast, s.LostAt, s.LostError = p.Object.Namespace+"/"+p.Object.String(), &now, p.Error
	}
	o, err := teller.PutStanding(receiver, &s, d.Receivers[receiver] != nil, now)
	if err == nil {
		tx.Put(o)
	}
	return err
}

// forget has what is known of receivers that are in the settings no more go after a while, if they were not told of something, and at
// once if there is nothing to be said.
func (d *Deliveries) forget(ctx context.Context) error {
	var former []store.Object
	if err := d.Store.View(func(s *store.Snapshot) error {
		s.Range(objects.NoticeStandings+"/", "", func(o store.Object) bool {
			if _, name := objects.NameOf(o.Key); d.Receivers[name] == nil && o.Expires == 0 {
				former = append(former, o)
			}
			return true
		})
		return nil
	}); err != nil || len(former) == 0 {
		return err
	}
	return d.update(ctx, func(tx *store.Tx) error {
		for _, o := range former {
			_, name := objects.NameOf(o.Key)
			var s notices.Standing
			if o, ok := tx.Get(o.Key); !ok || json.Unmarshal(o.Value, &s) != nil || s.Lost+s.Refused == 0 {
				tx.Delete(o.Key)
				continue
			}
			o, err := teller.PutStanding(name, &s, false, time.Now())
			if err != nil {
				return err
			}
			tx.Put(o)
		}
		return nil
	})
}

// List returns the receivers and how they have fared.
func (d *Deliveries) List() (list notices.List, err error) {
	list.Items = []notices.Receiver{}
	err = d.Store.View(func(s *store.Snapshot) error {
		standings, now := map[string]notices.Standing{}, time.Now().Unix()
		names := slices.Collect(maps.Keys(d.Receivers))
		var failed error
		s.Range(objects.NoticeStandings+"/", "", func(o store.Object) bool {
			var standing notices.Standing
			_, name := objects.NameOf(o.Key)
			if failed = json.Unmarshal(o.Value, &standing); failed != nil {
				return false
			}
			standings[name] = standing
			if over := o.Expires > 0 && o.Expires <= now; d.Receivers[name] == nil && !over && standing.Lost+standing.Refused > 0 {
				names = append(names, name)
			}
			return true
		})
		slices.Sort(names)
		for _, name := range names {
			r := notices.Receiver{Name: name, Standing: standings[name]}
			if known := d.Receivers[name]; known != nil {
				r.Kind, r.To = known.Kind(), known.To()
				r.Pending, r.Unwritten = d.waits(name)
			}
			list.Items = append(list.Items, r)
		}
		return failed
	})
	return list, err
}
