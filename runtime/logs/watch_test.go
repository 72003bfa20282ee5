package logs

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jobd/jobd/testdata/inotify"
)

// Three hundred logs are followed at once by one instance, though a user has no more than 128.
func TestFollowManyLogs(t *testing.T) {
	const many = 300
	var watcher Watcher
	ended := make(chan struct{})
	var logs []*StreamWriter
	var outs []*syncBuffer
	var group sync.WaitGroup
	for n := range many {
		path, log := newLog(t)
		log.Write(fmt.Appendf(nil, "begin %d\n", n))
		out := newSyncBuffer()
		logs, outs = append(logs, log), append(outs, out)
		group.Go(func() {
			if err := Read(context.Background(), path, Options{Follow: true, Watcher: &watcher}, out, ended); err != nil {
				t.Error(err)
			}
		})
	}
	for n, out := range outs {
		out.waitFor(t, fmt.Sprintf("begin %d\n", n))
	}
	for n, log := range logs {
		log.Write(fmt.Appendf(nil, "more %d\n", n))
	}
	for n, out := range outs {
		out.waitFor(t, fmt.Sprintf("begin %d\nmore %d\n", n, n))
	}
	if n := inotify.Instances(t); n != 1 {
		t.Errorf("%d inotify instances", n)
	}
	close(ended)
	group.Wait()
	if n := inotify.Instances(t); n != 0 {
		t.Errorf("%d inotify instances when nobody follows", n)
	}
}

// Several follow one log, and the others go on when one of them stops.
func TestFollowersOfOneLog(t *testing.T) {
	path, log := newLog(t)
	log.Write([]byte("one\n"))
	var watcher Watcher
	ended := make(chan struct{})
	leaving, leave := context.WithCancel(t.Context())
	stays, leaves := newSyncBuffer(), newSyncBuffer()
	results := make(chan error, 2)
	go func() { results <- Read(leaving, path, Options{Follow: true, Watcher: &watcher}, leaves, ended) }()
	leaves.waitFor(t, "one\n")
	stayed := make(chan error, 1)
	go func() { stayed <- Read(t.Context(), path, Options{Follow: true, Watcher: &watcher}, stays, ended) }()
	stays.waitFor(t, "one\n")
	leave()
	if err := <-results; err != context.Canceled {
		t.Errorf("who leaves gets %v", err)
	}
	log.Write([]byte("two\n"))
	stays.waitFor(t, "one\ntwo\n")
	close(ended)
	if err := <-stayed; err != nil {
		t.Error(err)
	}
}
