package aside

import (
	"fmt"
	"os"
	"testing"
)

// A Job each of whose pods hangs costs two starts, and not one for each pod.
func TestOwnersAreSetAside(t *testing.T) {
	key := func(i int) string { return fmt.Sprint("pods/default/x-", i) }
	change := Change{Key: job, UID: "uid"}
	for rule, tell := range map[string]func(*story){
		"one pod that hangs is one pod": func(s *story) {
			s.hangs("pods", key(0), false)
			s.aside("jobs", job, false)
			s.aside("pods", key(1), false)
		},
		"after the second one the Job and all its pods are set aside, and stay so at every start": func(s *story) {
			s.hangs("pods", key(0), false)
			s.hangs("pods", key(3), false)
			for range 2 {
				s.aside("jobs", job, true)
				for i := range 5 {
					s.aside("pods", key(i), true)
				}
				s.aside("admission", key(1), false)
				s.aside("pods", "pods/default/other-1", false)
				s.start()
			}
		},
		"one pod that hangs twice is still one": func(s *story) {
			s.hangs("pods", key(0), false)
			s.changes(Change{Key: key(0), UID: "u0"})
			s.hangs("pods", key(0), false)
			s.hangs("admission", key(0), false)
			s.aside("jobs", job, false)
		},
		"a change of the Job releases all, and the next one that hangs is enough": func(s *story) {
			for n := range 3 {
				s.hangs("pods", key(n), false)
				if n == 0 {
					s.hangs("pods", key(4), false)
				}
				s.aside("jobs", job, true)
				if e := s.entry(job); e.Final() != (n == 2) || e.Told {
					s.t.Errorf("got %+v", e)
				}
				if released := s.changes(change); released != (n < 2) {
					s.t.Errorf("it is released: %t", released)
				}
				s.start()
				for _, i := range []int{0, 1, 4} {
					s.aside("pods", key(i), n == 2)
				}
				s.aside("jobs", job, n == 2)
			}
		},
		"a pod that hung too often does not come back with its Job, and does not set it aside again": func(s *story) {
			for range 2 {
				s.hangs("pods", key(0), false)
				s.changes(Change{Key: key(0), UID: "u0"})
			}
			s.hangs("pods", key(0), false)
			s.hangs("pods", key(1), false)
			s.changes(change)
			s.start()
			s.aside("pods", key(0), true)
			s.aside("pods", key(1), false)
			s.aside("jobs", job, false)
		},
		"a change of one pod releases that one": func(s *story) {
			s.hangs("pods", key(0), false)
			s.hangs("pods", key(1), false)
			s.changes(Change{Key: key(2), UID: "u2"})
			s.start()
			s.aside("pods", key(2), false)
			s.aside("pods", key(3), true)
			s.hangs("pods", key(2), false)
			s.aside("pods", key(2), true)
		},
		"pods of a Job that is gone are left alone until they are gone as well": func(s *story) {
			s.hangs("pods", key(0), false)
			s.hangs("pods", key(1), false)
			delete(s.stored, job)
			s.changes(Change{Key: job, UID: "uid", Deleted: true})
			s.start()
			s.aside("pods", key(2), true)
			for i := range 5 {
				delete(s.stored, key(i))
				s.changes(Change{Key: key(i), UID: fmt.Sprint("u", i), Deleted: true})
			}
			if _, err := os.Stat(s.path); !os.IsNotExist(err) {
				s.t.Errorf("the file: %v", err)
			}
		},
		"pods are set aside from all that hung on some of them": func(s *story) {
			s.hangs("admission", key(0), false)
			s.hangs("pods", key(1), false)
			s.aside("admission", key(2), true)
			s.aside("pods", key(2), true)
		},
		"another version of jobd tries all": func(s *story) {
			s.hangs("pods", key(0), false)
			s.hangs("pods", key(1), false)
			s.version = "v2"
			s.start()
			s.aside("jobs", job, false)
			s.aside("pods", key(1), false)
			s.aside("pods", key(2), false)
			s.hangs("pods", key(1), false)
			s.aside("jobs", job, false)
			s.aside("pods", key(2), false)
		},
		"a Job that is set aside already has its pods set aside all the same": func(s *story) {
			s.hangs("jobs", job, false)
			s.hangs("pods", key(0), false)
			s.hangs("pods", key(1), false)
			s.aside("pods", key(2), true)
		},
		"so it is with the Jobs of a CronJob, and a change of it releases also their pods": func(s *story) {
			s.stored = stored{"cronjobs.batch/default/c": "c"}
			for j := range 4 {
				s.stored[fmt.Sprint("jobs.batch/default/c-", j)] = fmt.Sprint("j", j)
				for p := range 3 {
					s.stored[fmt.Sprintf("pods/default/c-%d-%d", j, p)] = fmt.Sprint("p", j, p)
				}
			}
			s.hangs("pods", "pods/default/c-0-0", false)
			s.hangs("pods", "pods/default/c-0-1", false)
			s.aside("cronJobs", "cronjobs.batch/default/c", false)
			s.hangs("jobs", "jobs.batch/default/c-1", false)
			all := func(want bool) {
				s.aside("cronJobs", "cronjobs.batch/default/c", want)
				s.aside("jobs", "jobs.batch/default/c-0", want)
				s.aside("jobs", "jobs.batch/default/c-2", want)
				s.aside("pods", "pods/default/c-0-0", want)
				s.aside("pods", "pods/default/c-0-2", want)
			}
			all(true)
			s.changes(Change{Key: "cronjobs.batch/default/c", UID: "c"})
			s.start()
			all(false)
		},
	} {
		t.Run(rule, func(t *testing.T) {
			s := newStory(t)
			for i := range 5 {
				s.stored[key(i)] = fmt.Sprint("u", i)
			}
			s.stored["pods/default/other-1"] = "other"
			s.t = t
			tell(s)
		})
	}
}

// What is said of a Job tells of its pods, and what is said of these tells of the Job.
func TestMessagesOfOwners(t *testing.T) {
	s := newStory(t)
	for i := range 3 {
		s.stored[fmt.Sprint("pods/default/x-", i)] = fmt.Sprint("u", i)
	}
	s.hangs("pods", "pods/default/x-0", false)
	s.hangs("pods", "pods/default/x-1", false)
	for key, want := range map[string]string{
		job:                "jobd broke down while it was at work on several of its pods, and leaves it alone until it is changed",
		"pods/default/x-0": "jobd broke down while it was at work on it (pods), and leaves it alone until it is changed",
		"pods/default/x-2": "jobd broke down while it was at work on several other pods of Job x (pods), and leaves it alone until it or Job x is changed",
	} {
		if got := s.entry(key).Message(); got != want {
			t.Errorf("of %s it says %q, want %q", key, got, want)
		}
	}
	if told := s.entry("pods/default/x-2").Told; !told {
		t.Error("each pod gets an event")
	}
}
