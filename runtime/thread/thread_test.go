package thread

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestEachFunctionHasAThreadOfItsOwn(t *testing.T) {
	// The first thread is free for a goroutine only now and then.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var mu sync.Mutex
	seen := map[int]bool{}
	hold := make(chan struct{})
	var all sync.WaitGroup
	for range 100 {
		all.Add(1)
		Start(func() {
			defer all.Done()
			mu.Lock()
			seen[unix.Gettid()] = true
			mu.Unlock()
			<-hold
		})
	}
	for n := 0; n < 100; {
		runtime.Gosched()
		mu.Lock()
		n = len(seen)
		mu.Unlock()
	}
	close(hold)
	all.Wait()
	if seen[os.Getpid()] {
		t.Error("one ran on the first thread")
	}
}

func TestRunReturnsTheError(t *testing.T) {
	if err := Run(func() error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
