package aside

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

type stored map[string]string

func (s stored) UID(key string) (string, bool) { uid, ok := s[key]; return uid, ok }

// Controller takes the object whose name is the beginning of another's for what controls that.
func (s stored) Controller(key, resource string) (Object, error) {
	parts := strings.Split(key, "/")
	name := parts[2][:max(0, strings.LastIndexByte(parts[2], '-'))]
	by := resource + "/" + parts[1] + "/" + name
	if uid, ok := s[by]; ok {
		return Object{by, uid}, nil
	}
	return Object{}, nil
}

func (s stored) Controlled(by Object, resource string) (controlled []Object, err error) {
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if strings.HasPrefix(key, resource+"/") {
			if o, _ := s.Controller(key, strings.Split(by.Key, "/")[0]); o == by {
				controlled = append(controlled, Object{key, s[key]})
			}
		}
	}
	return controlled, nil
}

var start = time.Unix(1000, 0)

const job = "jobs.batch/default/x"

// story is what happens to a List, which lies in a file between two starts.
type story struct {
	t       *testing.T
	path    string
	version string
	now     time.Time

	version64 uint64 // of the store
	list      *List
	stored    stored
}

func newStory(t *testing.T) *story {
	s := &story{t: t, path: filepath.Join(t.TempDir(), "aside.json"), version: "v1", now: start, stored: stored{job: "uid"}}
	s.start()
	return s
}

func (s *story) start() []Entry {
	s.t.Helper()
	var err error
	if s.list, err = Open(s.path, s.version); err != nil {
		s.t.Fatal(err)
	}
	entries, err := s.list.Begin(s.stored, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	return entries
}

func (s *story) hangs(concern, key string, unstored bool) {
	s.t.Helper()
	if err := s.list.Hang(Hang{Concern: concern, Key: key, Unstored: unstored, At: s.now}); err != nil {
		s.t.Fatal(err)
	}
	s.start()
}

func (s *story) changes(c Change) bool {
	s.t.Helper()
	s.version64++
	c.Version = s.version64
	if s.list.Knows(c.Key) {
		if err := s.list.Arrived(c); err != nil {
			s.t.Fatal(err)
		}
	}
	released, err := s.list.Changed([]Change{c})
	if err != nil {
		s.t.Fatal(err)
	}
	return len(released) > 0
}

func (s *story) aside(concern, key string, want bool) {
	s.t.Helper()
	if got := s.list.Has(concern, key); got != want {
		s.t.Errorf("%s is set aside from %s: %t, want %t", key, concern, got, want)
	}
}

func (s *story) entry(key string) Entry {
	s.t.Helper()
	for _, e := range s.list.Entries() {
		if e.Key == key {
			return e
		}
	}
	s.t.Errorf("%s is not set aside", key)
	return Entry{}
}

func TestSetAside(t *testing.T) {
	change := Change{Key: job, UID: "uid"}
	for rule, tell := range map[string]func(*story){
		"only what hung is set aside, and stays so at every start": func(s *story) {
			s.hangs("jobs", job, false)
			s.start()
			s.aside("jobs", job, true)
			s.aside("ttl", job, false)
			s.aside("jobs", "jobs.batch/default/y", false)
		},
		"a change releases it": func(s *story) {
			s.hangs("jobs", job, false)
			if !s.changes(change) || s.changes(change) {
				s.t.Error("it is released not at all, or twice")
			}
			s.start()
			s.aside("jobs", job, false)
		},
		"a deletion that has begun does not": func(s *story) {
			s.hangs("jobs", job, false)
			if s.changes(Change{Key: job, UID: "uid", Deleting: true}) {
				s.t.Error("it does")
			}
			s.aside("jobs", job, true)
		},
		"what is gone is forgotten": func(s *story) {
			s.hangs("jobs", job, false)
			s.changes(Change{Key: job, UID: "uid", Deleted: true})
			s.aside("jobs", job, false)
			if _, err := os.Stat(s.path); !os.IsNotExist(err) {
				s.t.Errorf("the file: %v", err)
			}
		},
		"what went while jobd did not run as well": func(s *story) {
			s.hangs("jobs", job, false)
			delete(s.stored, job)
			s.start()
			s.stored[job] = "another"
			s.start()
			s.aside("jobs", job, false)
		},
		"another object of the name is another one": func(s *story) {
			s.hangs("jobs", job, false)
			s.stored[job] = "another"
			s.start()
			s.aside("jobs", job, false)
		},
		"what hangs again after a change may be changed once more, and then no more": func(s *story) {
			for range 3 {
				s.aside("jobs", job, false)
				s.hangs("jobs", job, false)
				s.aside("jobs", job, true)
				s.changes(change)
			}
			s.start()
			s.aside("jobs", job, true)
			if e := s.list.Entries(); len(e) != 1 || !e[0].Final() {
				s.t.Errorf("got %+v", e)
			}
		},
		"another version of jobd tries each once": func(s *story) {
			for range 3 {
				s.hangs("jobs", job, false)
				s.changes(change)
			}
			s.version = "v2"
			s.start()
			s.aside("jobs", job, false)
			s.hangs("jobs", job, false)
			s.start()
			s.aside("jobs", job, true)
			if e := s.list.Entries(); len(e) != 1 || e[0].Hangs != 1 {
				s.t.Errorf("got %+v", e)
			}
		},
		"what hangs although its concern leaves it alone is left alone by all": func(s *story) {
			s.hangs("jobs", job, false)
			s.hangs("jobs", job, false)
			s.aside("ttl", job, true)
		},
		"two concerns may hang on one object": func(s *story) {
			s.hangs("jobs", job, false)
			s.hangs("ttl", job, false)
			s.aside("jobs", job, true)
			s.aside("ttl", job, true)
			s.aside("gangs", job, false)
			if !s.changes(change) {
				s.t.Error("it is not released")
			}
			s.aside("ttl", job, false)
		},
		"an object that was never stored is waited for": func(s *story) {
			delete(s.stored, job)
			s.hangs("jobs", job, true)
			s.aside("jobs", job, false)
			s.changes(Change{Key: job, UID: "new"})
			s.aside("jobs", job, true)
			if !s.changes(Change{Key: job, UID: "new"}) {
				s.t.Error("a change does not release it")
			}
		},
		"but not for long": func(s *story) {
			delete(s.stored, job)
			s.hangs("jobs", job, true)
			s.now = s.now.Add(2 * time.Hour)
			s.start()
			s.changes(Change{Key: job, UID: "new"})
			s.aside("jobs", job, false)
		},
		"an object whose change was never stored goes on as it was, and the change is waited for": func(s *story) {
			s.hangs("jobs", job, true)
			s.aside("jobs", job, false)
			s.changes(change)
			s.aside("jobs", job, true)
		},
		"a pod that was never stored would be made again for its Job": func(s *story) {
			s.hangs("admission", "pods/default/x-abcde", false)
			s.aside("jobs", job, true)
			s.aside("admission", "pods/default/x-abcde", false)
		},
		"also one with an index, and a Job for its CronJob": func(s *story) {
			s.stored = stored{"jobs.batch/default/a-b": "j", "cronjobs.batch/default/a": "c", "jobs.batch/default/a": "other"}
			s.hangs("pods", "pods/default/a-b-17-abcde", false)
			s.aside("jobs", "jobs.batch/default/a-b", true)
			s.hangs("jobs", "jobs.batch/default/a-28000", false)
			s.aside("cronJobs", "cronjobs.batch/default/a", true)
		},
		"what has no other is known by its name": func(s *story) {
			s.hangs("budgets", "things/default/x", false)
			s.aside("budgets", "things/default/x", true)
			s.changes(Change{Key: "things/default/x", UID: "new"})
			s.aside("budgets", "things/default/x", true)
		},
	} {
		t.Run(rule, func(t *testing.T) {
			s := newStory(t)
			s.t = t
			tell(s)
		})
	}
}

func TestTold(t *testing.T) {
	s := newStory(t)
	s.hangs("jobs", job, false)
	told := s.list.Entries()
	if len(told) != 1 || told[0].Told || told[0].UID != "uid" {
		t.Fatalf("got %+v", told)
	}
	if err := s.list.Told(told); err != nil {
		t.Fatal(err)
	}
	if now := s.start(); len(now) != 1 || !now[0].Told {
		t.Errorf("got %+v", now)
	}
}

func TestNothing(t *testing.T) {
	var none *List
	if released, err := none.Changed([]Change{{Key: job}}); released != nil || err != nil || none.Has("jobs", job) || none.Entries() != nil {
		t.Error("a List that is nil is not empty")
	}
	s := newStory(t)
	if _, err := os.Stat(s.path); !os.IsNotExist(err) {
		t.Errorf("there is a file, though nothing was set aside: %v", err)
	}
	if err := os.WriteFile(s.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.path, "v1"); err == nil {
		t.Error("a file that cannot be read is taken for none")
	}
	if !reflect.DeepEqual(s.list.Entries(), []Entry(nil)) {
		t.Error("there are entries")
	}
}
