package network

import "testing"

// Of several changes in one message the error names the one that failed.
func TestChangesThatFail(t *testing.T) {
	inOwnNetwork(t, func() {
		s, err := openRTNetlink()
		if err != nil {
			t.Fatal(err)
		}
		defer s.close()
		for range 2 {
			err = s.do(loopbackUp(), linkUp("absent"), linkUp("gone"), loopbackUp())
			if err == nil || err.Error() != "absent up: no such device" {
				t.Errorf("error: %v", err)
			}
			if err := s.do(loopbackUp(), loopbackUp()); err != nil {
				t.Error(err)
			}
		}
		if _, err := s.index("absent"); err == nil {
			t.Error("an interface that is absent has an index")
		}
	})
}
