package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/runtime/pins"
)

const (
	// mostPrepared bounds how many networks wait for pods: as many as commonly start at a time.
	mostPrepared = 8
	// preparedFor is how long networks wait after the last pod that could have had one.
	preparedFor = time.Minute
)

// prepared are networks that are made before the pods that get them, so that these need not wait: namespaces on the
// bridge, each with an address and its record. They lie in a directory of their own, and a pod gets one by a rename, so
// that whatever is killed when, each belongs either to a pod or to nobody.
type prepared struct {
	pins *pins.Pins
	dir  string
	// names are those of their directories. They stand for a pod's UID as owners of addresses.
	names []string
	made  int
	// wanted is how many there should be. It grows with each pod, so that little is made for a lone one.
	wanted int
	// demand has a value when a pod has come since Prepare has last looked.
	demand chan struct{}
}

func newPrepared(in *pins.Pins, dir string) prepared {
	return prepared{pins: in, dir: dir, demand: make(chan struct{}, 1)}
}

func (p *prepared) namespaces(name string) namespaces {
	return namespaces{pins: p.pins, dir: filepath.Join(p.dir, name)}
}

// clear removes what an earlier run has left.
func (p *prepared) clear() error {
	left, err := os.ReadDir(p.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, d := range left {
		if err := p.namespaces(d.Name()).release(); err != nil {
			return fmt.Errorf("prepared network: %w", err)
		}
	}
	return nil
}

// Prepare makes networks for the pods to come until the context ends: as many as pods have come lately, up to a few, and
// none when no pod has come for a minute.
func (n *Network) Prepare(ctx context.Context) error {
	if n.mode != Bridge {
		return nil
	}
	idle := time.NewTimer(preparedFor)
	defer idle.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return n.dropPrepared()
		case <-idle.C:
			err = n.dropPrepared()
		case <-n.prepared.demand:
			idle.Reset(preparedFor)
			for more := true; more && err == nil && ctx.Err() == nil; {
				more, err = n.prepare()
			}
		}
		if err != nil && !errors.Is(err, unix.EXFULL) { // pods to come are told
			n.logger.Warn("cannot prepare networks for pods to come", "bridge", n.bridge.name, "error", err)
		}
	}
}

// prepare makes one network, and reports whether one was wanted.
func (n *Network) prepare() (bool, error) {
	n.mu.Lock()
	if len(n.prepared.names) >= n.prepared.wanted {
		n.mu.Unlock()
		return false, nil
	}
	n.prepared.made++
	name := strconv.Itoa(n.prepared.made)
	address, err := n.addresses.take(name)
	n.mu.Unlock()
	if err != nil {
		return false, err
	}
	p := n.prepared.namespaces(name)
	if err = p.write(record{Address: address}); err == nil {
		err = p.network(func() error { return n.bridge.connect(address) })
	}
	if err != nil {
		return false, errors.Join(err, n.unprepare(name))
	}
	crash.At("network.prepared")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.prepared.names = append(n.prepared.names, name)
	return true, nil
}

// unprepare removes a network that no pod has got.
func (n *Network) unprepare(name string) error {
	err := n.prepared.namespaces(name).release()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addresses.release(name)
	return err
}

// dropPrepared removes all networks that are prepared, until pods come again.
func (n *Network) dropPrepared() error {
	n.mu.Lock()
	names := n.prepared.names
	n.prepared.names, n.prepared.wanted = nil, 0
	n.mu.Unlock()
	var all []error
	for _, name := range names {
		all = append(all, n.unprepare(name))
	}
	return errors.Join(all...)
}

// takePrepared gives a pod a network that is prepared, and reports whether there was one. n.mu is held.
func (n *Network) takePrepared(uid string, p namespaces) (record, bool) {
	n.prepared.wanted = min(n.prepared.wanted+1, mostPrepared)
	select {
	case n.prepared.demand <- struct{}{}:
	default:
	}
	if len(n.prepared.names) == 0 {
		return record{}, false
	}
	// If somebody has removed the bridge, to make the pod's network says so.
	if index, err := n.bridge.host.index(n.bridge.name); err != nil || index != n.bridge.index {
		return record{}, false
	}
	name := n.prepared.names[0]
	if err := unix.Rename(n.prepared.namespaces(name).dir, p.dir); err != nil {
		return record{}, false // the pod has had a network before
	}
	n.prepared.names = slices.Delete(n.prepared.names, 0, 1)
	return record{Address: n.addresses.give(name, uid)}, true
}
