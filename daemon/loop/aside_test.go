package loop

import (
	"testing"
	"time"

	"github.com/jobd/jobd/store"
)

// When the loop cannot find out what is set aside, what it was last at work on is not to blame.
func TestAFailedStartBlamesNoObject(t *testing.T) {
	s, err := store.Open(t.TempDir()+"/jobd.db", store.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	l := New(Config{Store: s})
	l.work = work{"pods", "pods/default/a"}
	if err := l.beginAside(time.Now()); err == nil || l.work != (work{}) {
		t.Errorf("%v is to blame for %v", l.work, err)
	}
}
