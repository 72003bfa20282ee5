package notify

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// What is remembered of a CronJob, or of Jobs or JobSets of one name, is stored by these names, in their namespace.
const (
	OfCronJob = "cronjob."
	OfJobs    = "job."
	OfJobSets = "jobset."
)

// Memory is what is remembered of a CronJob, or of Jobs of one name.
type Memory struct {
	// Failed says that the last of the Jobs that have ended has failed.
	Failed bool `json:"failed,omitempty"`
	// Overdue is what was due when it was told that no Job has succeeded; nil if that was not told, or one has since.
	Overdue *time.Time `json:"overdue,omitempty"`

	// Every and Since are of an expectation of Jobs of one name: within which time one has to succeed, and since when that is
	// so. Last is when one has succeeded that was expected; nil if none has. Wanted is what the last of them asks for, which may
	// be gone when a notice is due.
	Every  time.Duration   `json:"every,omitempty"`
	Since  time.Time       `json:"since,omitzero"`
	Last   *time.Time      `json:"last,omitempty"`
	Wanted *notices.Wanted `json:"wanted,omitempty"`
}

// Due returns by when the next success of the name is expected.
func (m Memory) Due() time.Time { return m.Since.Add(m.Every) }

// Late reports whether that has passed.
func (m Memory) Late(now time.Time) bool { return !now.Before(m.Due()) }

// Succeeded returns what is remembered once a Job of the name has succeeded.
func (m Memory) Succeeded(at time.Time) Memory {
	m.Since, m.Last = at, &at
	return m
}

// Empty reports whether there is nothing to be remembered.
func (m Memory) Empty() bool { return !m.Failed && m.Overdue == nil && m.Every == 0 }

// Bad reports whether a success would be a recovery.
func (m Memory) Bad() bool { return m.Failed || m.Overdue != nil }

// MemoryKey is the key of what is remembered, by a name that begins with one of these.
func MemoryKey(namespace, name string) string {
	return store.Key(objects.NoticeMemories, namespace, name)
}

// ReadMemory returns what is remembered; of another CronJob of the same name nothing is.
func ReadMemory(from objects.Getter, namespace, name string, owner types.UID) (m Memory, err error) {
	o, ok := from.Get(MemoryKey(namespace, name))
	if !ok || o.UID != string(owner) {
		return m, nil
	}
	if err := json.Unmarshal(o.Value, &m); err != nil {
		return m, fmt.Errorf("%s: %w", o.Key, err)
	}
	return m, nil
}

// Expectation is what is expected of the Jobs of one name.
type Expectation struct {
	Namespace, Name string
	Memory
}

// expects is in what is stored where a success is expected.
const expects = `"every":`

// Expectations returns all that is expected of names of Jobs, in the order of these.
func Expectations(s *store.Snapshot) (all []Expectation, err error) {
	s.Range(objects.NoticeMemories+"/", "", func(o store.Object) bool {
		if !strings.Contains(string(o.Value), expects) {
			return true // most of them
		}
		namespace, stored := objects.NameOf(o.Key)
		e := Expectation{Namespace: namespace}
		var ok bool
		if e.Name, ok = strings.CutPrefix(stored, OfJobs); !ok {
			return true
		}
		if err = json.Unmarshal(o.Value, &e.Memory); err != nil {
			err = fmt.Errorf("%s: %w", o.Key, err)
			return false
		}
		if e.Every > 0 {
			all = append(all, e)
		}
		return true
	})
	return all, err
}
