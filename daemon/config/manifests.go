package config

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/jobd/jobd/internal/layout"
)

const (
	// ManifestsNone as the directory of manifests is none at all.
	ManifestsNone = "none"
	// defaultManifests is applied by the jobd of the machine, if it exists when that starts: not by one with a root of its own, which
	// would be a second one to do so.
	defaultManifests = "/etc/jobd/manifests.d"
)

// completeManifests finds the directory of manifests.
func (c *Config) completeManifests() error {
	switch c.Manifests {
	case ManifestsNone:
	case "":
		if info, err := os.Stat(defaultManifests); c.Root == layout.DefaultRoot && err == nil && info.IsDir() {
			c.Manifests = defaultManifests
		}
	default:
		if !filepath.IsAbs(c.Manifests) {
			return errors.New("manifests: name the directory by its whole path, or none")
		}
		c.Manifests = filepath.Clean(c.Manifests)
	}
	return nil
}

// ManifestsDir returns the directory of manifests; empty for none.
func (c *Config) ManifestsDir() string {
	if c.Manifests == ManifestsNone {
		return ""
	}
	return c.Manifests
}
