package main

import (
	"os"
	"runtime"
	"runtime/debug"
	gometrics "runtime/metrics"
	"time"
)

const (
	// headroom is how much the heap may grow between two collections while the daemon is busy, in bytes. Go's own rule,
	// as much as is in use, has a small daemon collect many times a second.
	headroom = 64 << 20
	// often is the time between collections that shows that the daemon is busy.
	often = 2 * time.Second
	// seldom is the time between collections that shows that it is not, however large the headroom: less than the daemon
	// waits before it returns memory at rest.
	seldom = 4 * time.Second
	// leastLive bounds the percentage of a daemon that uses next to nothing.
	leastLive = 16 << 20
	// ordinary is Go's own percentage.
	ordinary = 100
	// least is the percentage of a daemon that uses much: by Go's own it would keep as much again as its pods need.
	least = 50
)

// collectionPercent returns by how much the heap may grow until it is collected again, in percent of the bytes that are in use
// after a collection. since is the time from the collection before, and percent what held until then. The daemon counts as busy
// by how often Go's own rule would have collected: otherwise the headroom would end the headroom.
func collectionPercent(live int64, since time.Duration, percent int) int {
	busy := max(least, int(headroom*100/max(live, leastLive)))
	if since > min(often*time.Duration(percent)/ordinary, seldom) {
		return min(ordinary, busy)
	}
	return busy
}

// giveHeadroom chooses the percentage anew after each collection. The collection with which the daemon returns memory at
// rest ends the headroom. A percentage that the environment names stays.
func giveHeadroom() {
	if os.Getenv("GOGC") != "" {
		return
	}
	last, percent := time.Now(), ordinary
	var next func(*[64]byte)
	again := func() {
		// It is found to be unreachable by the next collection. Objects of a few bytes would share their memory with others.
		runtime.SetFinalizer(new([64]byte), next)
	}
	next = func(*[64]byte) {
		now := time.Now()
		if p := collectionPercent(liveHeap(), now.Sub(last), percent); p != percent {
			debug.SetGCPercent(p)
			percent = p
		}
		last = now
		again()
	}
	again()
}

// liveHeap returns how many bytes were in use after the last collection.
func liveHeap() int64 {
	samples := []gometrics.Sample{{Name: "/gc/heap/live:bytes"}}
	gometrics.Read(samples)
	return int64(samples[0].Value.Uint64())
}
