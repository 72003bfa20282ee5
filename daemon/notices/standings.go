package notices

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

const (
	// maxStrangers is of how many names that the settings do not have it is counted what they were not told.
	maxStrangers = 100
	// strangersKept is for how long that is remembered.
	strangersKept = 30 * 24 * time.Hour
)

// StandingKey is where it is stored how a receiver has fared.
func StandingKey(receiver string) string { return store.Key(objects.NoticeStandings, "", receiver) }

// PutStanding returns what is stored of a receiver, which goes after a while unless the settings have it.
func PutStanding(receiver string, s *notices.Standing, known bool, now time.Time) (o store.Object, err error) {
	o.Key = StandingKey(receiver)
	o.Value, err = json.Marshal(s)
	if !known {
		o.Expires = now.Add(strangersKept).Unix()
	}
	return o, err
}

// counted returns by which name it is counted that a receiver was not told of something.
func (t *Teller) counted(receiver string) string {
	if t.receivers[receiver] != nil || t.strangers[receiver] {
		return receiver
	}
	if len(t.strangers) >= maxStrangers { // whoever may submit a Job makes up names
		return notices.Others
	}
	t.strangers[receiver] = true
	return receiver
}

// refused notes that a notice is not written.
func (t *Teller) refused(p *loop.Pass, about corev1.ObjectReference, n *notify.Notice, receiver, why string) error {
	known, receiver := t.receivers[receiver] != nil, t.counted(receiver)
	p.Figures.NoticeRefused(receiver, string(n.Kind))
	var s notices.Standing
	if o, ok := p.Get(StandingKey(receiver)); ok {
		if err := json.Unmarshal(o.Value, &s); err != nil {
			return err
		}
	}
	now := p.Now
	s.Refused++
	s.RefusedLast, s.RefusedAt, s.RefusedError = about.Namespace+"/"+n.Object.String(), &now, why
	o, err := PutStanding(receiver, &s, known, now)
	if err == nil {
		p.PutStored(o)
	}
	return err
}
