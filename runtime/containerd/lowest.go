package containerd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/jobd/jobd/internal/outside"
)

const (
	// maxLowest is how many layers of mount points there are at most. Beyond that, a container with other mount points
	// gets the layer without any, so that what the OCI runtime creates for its mounts is left in its own layer.
	maxLowest = 1024
	// mostPlaces is how many mount points a layer has at most: they are made while other containers wait.
	mostPlaces = 256
	// enoughLowest is how many are kept although no container and no layer that is to be recycled uses some of them.
	enoughLowest = 256
)

// lowestLayers are directories that hold nothing but the mount points of containers: empty directories and files.
// Everything in an image covers them. Containers with the same mount points share one.
type lowestLayers struct {
	dir          string
	enough, most int // enoughLowest and maxLowest, but for tests

	mu    sync.Mutex
	made  map[string]*lowestLayer // by name
	takes uint64
}

type lowestLayer struct {
	users int    // layers of containers that lie over it, or will again
	last  uint64 // when it was last taken: the count of takes
}

func newLowestLayers(dir string, enough, most int) *lowestLayers {
	return &lowestLayers{dir: dir, enough: enough, most: most, made: map[string]*lowestLayer{}}
}

// take returns the name of the layer for a container's mounts, and makes it if necessary. It is there until drop is
// called.
func (l *lowestLayers) take(mounts []specs.Mount) (string, error) {
	places := placesOf(mounts)
	hash := sha256.Sum256([]byte(strings.Join(places, "\x00"))) // what no path can have: others are tenants' to choose
	name := hex.EncodeToString(hash[:8])
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.made[name] != nil {
		l.use(name)
		return name, nil
	}
	if err := l.makeRoom(); err != nil {
		return "", fmt.Errorf("places for mounts: %w", err)
	}
	if len(l.made) >= l.most || len(places) > mostPlaces {
		places, name = nil, "none"
	}
	path := filepath.Join(l.dir, name)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := makePlaces(path, places); err != nil {
			return "", fmt.Errorf("places for mounts: %w", err)
		}
	} else if err != nil {
		return "", fmt.Errorf("places for mounts: %w", err)
	}
	l.use(name)
	return name, nil
}

// use counts a user of a layer that is there. The mutex is held, but while nothing else knows of l.
func (l *lowestLayers) use(name string) {
	one := l.made[name]
	if one == nil {
		one = &lowestLayer{}
		l.made[name] = one
	}
	l.takes++
	one.users++
	one.last = l.takes
}

// drop takes back a take. The layer may go once others are needed.
func (l *lowestLayers) drop(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one := l.made[name]; one != nil {
		one.users--
	}
}

// makeRoom removes the layers that nobody has used for longest, until there are fewer than enough, or all have users. The
// mutex is held.
func (l *lowestLayers) makeRoom() error {
	for len(l.made) >= l.enough {
		oldest := ""
		for name, one := range l.made {
			if one.users == 0 && (oldest == "" || one.last < l.made[oldest].last) {
				oldest = name
			}
		}
		if oldest == "" {
			return nil
		}
		delete(l.made, oldest)
		if err := l.remove(oldest); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a layer, if it is there, under another name first, as when it was made: what has a layer's name is
// complete, although the daemon is killed meanwhile. The mutex is held.
func (l *lowestLayers) remove(name string) error {
	path := filepath.Join(l.dir, name)
	if err := os.RemoveAll(path + unfinished); err != nil {
		return err
	}
	if err := os.Rename(path, path+unfinished); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.RemoveAll(path + unfinished)
}

// placesOf lists where mounts are in the root file system itself, with a slash at the end of directories.
func placesOf(mounts []specs.Mount) []string {
	mounted := make(map[string]bool, len(mounts))
	for _, m := range mounts {
		mounted[filepath.Clean("/"+m.Destination)] = true
	}
	var places []string
	for _, m := range mounts {
		place := filepath.Clean("/" + m.Destination)
		if place == "/" || withinOne(mounted, place) {
			continue
		}
		if isDir, _ := outside.IsDir(m.Source); m.Type != "bind" || isDir {
			place += "/"
		}
		places = append(places, place)
	}
	slices.Sort(places)
	return slices.Compact(places)
}

// withinOne reports whether a path is below one of those that are mounted.
func withinOne(mounted map[string]bool, path string) bool {
	for path != "/" {
		if path = filepath.Dir(path); mounted[path] {
			return true
		}
	}
	return false
}

// makePlaces makes a layer under another name first, so that a layer with its final name is complete. Where that fails,
// as it does for a mount point whose name is too long, nothing is left.
func makePlaces(path string, places []string) (err error) {
	fresh := path + unfinished
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(fresh))
		}
	}()
	if err := errors.Join(os.RemoveAll(fresh), os.Mkdir(fresh, layerMode)); err != nil {
		return err
	}
	for _, place := range places {
		at := filepath.Join(fresh, place)
		if strings.HasSuffix(place, "/") {
			if err := os.MkdirAll(at, 0o755); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(at, nil, 0o644); err != nil {
			return err
		}
	}
	return os.Rename(fresh, path)
}

// sweep removes the layers of earlier runs that no container uses.
func (l *lowestLayers) sweep() error {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		l.mu.Lock()
		switch {
		case strings.HasSuffix(e.Name(), unfinished):
			errs = append(errs, os.RemoveAll(filepath.Join(l.dir, e.Name())))
		case l.made[e.Name()] == nil:
			errs = append(errs, l.remove(e.Name()))
		}
		l.mu.Unlock()
	}
	return errors.Join(errs...)
}
