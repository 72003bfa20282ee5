package devices

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	"tags.cncf.io/container-device-interface/pkg/cdi"
)

// sharedSuffix makes the kind of a share of the kind of a device, as NVIDIA's device plugin names it (renameByDefault).
const sharedSuffix = ".shared"

// whole returns the kind of the devices that a resource stands for, or for shares of which.
func (d *Devices) whole(name corev1.ResourceName) corev1.ResourceName {
	if kind, ok := strings.CutSuffix(string(name), sharedSuffix); ok && d.options.Replicas[corev1.ResourceName(kind)] > 0 {
		return corev1.ResourceName(kind)
	}
	return name
}

// Whole returns the kind of the devices that a resource stands for, and how many share one; 0 if nobody does.
func (d *Devices) Whole(name corev1.ResourceName) (kind corev1.ResourceName, shares int) {
	if kind = d.whole(name); kind != name {
		shares = d.options.Replicas[kind]
	}
	return kind, shares
}

// State is a kind of which devices are shared, or may be used by others than pods.
type State struct {
	Kind corev1.ResourceName
	// Shared is what a share of a device is called, and Replicas how many there are of each; empty and 0 if they are not shared.
	Shared   corev1.ResourceName
	Replicas int
	Devices  []Device
}

// Device is a device of such a kind.
type Device struct {
	Name string // its full name
	// Pods are those that have it, by UID: the number of shares, or 0 if it is theirs alone.
	Pods map[string]int
	// Used says that others than pods use it, or may do so.
	Used bool
}

// States returns the kinds of which the number of devices does not say everything. Moved says that it may return something else than at
// the last call.
func (d *Devices) States() (all []State) {
	d.moved.Store(false)
	d.mu.Lock()
	defer d.mu.Unlock()
	held := d.holdings()
	for _, kind := range slices.Sorted(maps.Keys(d.kinds)) {
		s := State{Kind: kind, Replicas: d.options.Replicas[kind]}
		if s.Replicas > 0 {
			s.Shared = kind + sharedSuffix
		}
		cards := 0
		for _, name := range d.kinds[kind] {
			if _, ok := d.cards[name]; ok {
				cards++
			}
			s.Devices = append(s.Devices, Device{name, held[name], d.isUsed(name)})
		}
		if s.Replicas > 0 || cards > 0 && d.options.LookFirst {
			all = append(all, s)
		}
	}
	return all
}

// Moved reports whether States may return something else than at its last call.
func (d *Devices) Moved() bool { return d.moved.Load() }

func (d *Devices) move() {
	d.moved.Store(true)
	if d.options.Moved != nil {
		d.options.Moved()
	}
}

// moveShared notes that a pod has got or given back shares.
func (d *Devices) moveShared(given Assigned) {
	if len(given[""]) > 0 || len(d.options.Replicas) > 0 && len(given) > 0 {
		d.move()
	}
}

// Card says which card of NVIDIA a device is, or is a part of.
type Card struct {
	// Minors are the numbers of its files /dev/nvidiaN.
	Minors []int
	// Capabilities are those of its files /dev/nvidia-caps/nvidia-capN, which a MIG device has.
	Capabilities []int
}

var (
	cardFile       = regexp.MustCompile(`^/dev/nvidia([0-9]{1,4})$`)
	capabilityFile = regexp.MustCompile(`^/dev/nvidia-caps/nvidia-cap([0-9]{1,6})$`)
)

// cardOf returns which card a device is; false if it is none of NVIDIA's.
func cardOf(device *cdi.Device) (c Card, ok bool) {
	for _, n := range device.ContainerEdits.DeviceNodes {
		if found := cardFile.FindStringSubmatch(n.Path); found != nil {
			minor, _ := strconv.Atoi(found[1])
			c.Minors = append(c.Minors, minor)
		} else if found := capabilityFile.FindStringSubmatch(n.Path); found != nil {
			number, _ := strconv.Atoi(found[1])
			c.Capabilities = append(c.Capabilities, number)
		}
	}
	return c, len(c.Minors) > 0
}

// Cards returns the devices that are cards of NVIDIA, or parts of them, by name. It must not be changed.
func (d *Devices) Cards() map[string]Card {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cards
}

// Holders returns the pods that have a device, by the names of the devices, with the number of shares of each: 0 is the whole device.
func (d *Devices) Holders() map[string]map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.holdings()
}

// SetUsed says which devices others than pods use; nil: nobody knows any more.
func (d *Devices) SetUsed(names map[string]bool) {
	d.mu.Lock()
	if (names == nil) == (d.used == nil) && maps.Equal(names, d.used) {
		d.mu.Unlock()
		return
	}
	d.used = names
	d.wake()
	d.mu.Unlock()
	d.move()
}

// isUsed reports whether others than pods use a device, or may do so since nobody has looked. The lock must be held.
func (d *Devices) isUsed(name string) bool {
	if !d.options.LookFirst {
		return false
	}
	if _, card := d.cards[name]; card && d.used == nil {
		return true
	}
	return d.used[name]
}

// holdings returns the pods that have a device, see Holders. The lock must be held.
func (d *Devices) holdings() map[string]map[string]int {
	held := map[string]map[string]int{}
	note := func(name, pod string, shares int) {
		if held[name] == nil {
			held[name] = map[string]int{}
		}
		held[name][pod] += shares
	}
	for pod, given := range d.pods {
		for container, kinds := range given {
			for kind, names := range kinds {
				for _, name := range names {
					switch {
					case container == "":
						note(name, pod, 1)
					case !isShare(kind, name):
						note(name, pod, 0)
					}
				}
			}
		}
	}
	return held
}

// isShare reports whether a pod that has got a device as one of this kind shares it.
func isShare(kind corev1.ResourceName, name string) bool {
	return !strings.HasPrefix(name, string(kind)+"=")
}

// choose takes n devices of a kind that are free, or n shares of devices, and notes them in held. Those who share a device get the one
// that the fewest share, so that they are spread evenly. The lock must be held.
func (d *Devices) choose(kind corev1.ResourceName, n int, held map[string]map[string]int) (chosen []string, err error) {
	whole := d.whole(kind)
	shared := whole != kind
	used := 0
	free := slices.DeleteFunc(slices.Clone(d.kinds[whole]), func(name string) bool {
		if d.isUsed(name) {
			used++
			return true
		}
		return !shared && len(held[name]) > 0 || isWhole(held[name])
	})
	load := func(name string) (sum int) {
		for _, shares := range held[name] {
			sum += shares
		}
		return sum
	}
	for range n {
		next := ""
		if shared && len(free) > 0 {
			next = slices.MinFunc(free, func(a, b string) int { return cmp.Compare(load(a), load(b)) })
			if load(next) >= d.options.Replicas[whole] {
				next = ""
			}
		} else if len(chosen) < len(free) {
			next = free[len(chosen)]
		}
		if next == "" {
			others := ""
			if used > 0 {
				others = fmt.Sprintf(", while others than pods use %d", used)
			}
			return nil, fmt.Errorf("%d devices of kind %s are free, and it asks for %d%s: %w", len(chosen), kind, n, others, errdefs.ErrUnavailable)
		}
		chosen = append(chosen, next)
		if shared {
			if held[next] == nil {
				held[next] = map[string]int{}
			}
			held[next][""]++
		}
	}
	if !shared {
		for _, name := range chosen {
			held[name] = map[string]int{"": 0}
		}
	}
	return chosen, nil
}

// isWhole reports whether a pod has a device for itself.
func isWhole(pods map[string]int) bool {
	for _, shares := range pods {
		if shares == 0 {
			return true
		}
	}
	return false
}
