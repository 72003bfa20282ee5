package notify

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// What is remembered of a CronJob, or of Jobs or JobSets of one name, is stored by these names, in their namespace.
const (
	OfCronJob = "cronjob."
	OfJobs    = "job."
	OfJobSets = "jobset."
)

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
