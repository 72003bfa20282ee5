// Package doctor examines a host on which jobd is to run: it tries what `jobd serve` does when it starts, in temporary
// directories and with a temporary bridge, and looks at what pods will need later. In comes the configuration; out go
// findings, each of which says what is missing, what does not work without it, and what to do. Nothing else of the host is
// changed.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/daemon/config"
)

// Level says how much a finding matters.
type Level string

// The levels: all is well; something works less well or not at all; jobd cannot run containers.
const (
	OK     Level = "ok"
	Lack   Level = "lack"
	Broken Level = "broken"
)

// Finding is what one check has found.
type Finding struct {
	Level Level `json:"level"`
	// Subject is what was looked at, in a word or two.
	Subject string `json:"subject"`
	// Text says what there is, or what is missing and what that costs.
	Text string `json:"text"`
	// Help is the command or the setting that helps; empty where all is well or nothing does.
	Help string `json:"help,omitempty"`
}

// check looks at one thing.
type check struct {
	subject string
	// help is what to do where try fails, or warns: not if it fails with an error that is unhelped.
	help string
	// fails is the level of a failure.
	fails Level
	// try returns what there is. What it logs as a warning is a Lack, with the attribute help in place of the check's.
	try func(context.Context, *patient) (string, error)
}

// checks are the checks in the order in which they are made. A new one is one line.
var checks = []check{
	{"user", "run it as root: sudo jobd doctor", Broken, root},
	{"kernel", "", Lack, kernel},
	{"cgroups", "mount them: systemd does, a container needs --privileged --cgroupns=host", Broken, controlGroups},
	{"containers", "install an OCI runtime: apt install crun", Broken, containers},
	{"network", "see docs/network.md; --network host gives pods the network of the host", Lack, bridge},
	{"user namespaces", "pods that ask for hostUsers: false wait; see docs/security.md", Lack, userNamespaces},
	{"AppArmor", "apt install apparmor", Lack, appArmor},
	{"disk", "make room, or choose another disk with --root", Lack, disk},
	{"clock", "", Lack, clock},
	{"open files", "raise it: ulimit -n 1048576, or LimitNOFILE=infinity in the unit of systemd", Lack, openFiles},
	{
		"registry",
		"configure a mirror or a proxy (docs/images.md#mirrors-and-proxies), or import images, or make them (docs/images.md)",
		Lack, registry,
	},
	{"programs", "", Lack, programs},
	{"GPUs", "", Lack, gpus},
	{"notices", "jobctl notify lists the receivers; jobctl notify test NAME tries one", Lack, lostNotices},
	{"addresses", "end that process, or choose another address; all else is served meanwhile", Lack, addresses},
	{"manifests", "see docs/operating.md, Manifests in a directory", Lack, manifestsDir},
}

// unhelped is an error for which what helps otherwise is of no use.
type unhelped struct{ error }

// patient is the host, as a daemon with the configuration would have it.
type patient struct {
	config  config.Config // its root and state directory are the doctor's own
	wanted  config.Config
	dirs    []string
	logger  *slog.Logger
	unclean []error
}

// Examine makes every check. The configuration must be complete. An error says that the doctor itself could not work, or has
// left something behind.
func Examine(ctx context.Context, c config.Config) ([]Finding, error) {
	warnings := &collector{}
	p := &patient{config: c, wanted: c, logger: slog.New(warnings)}
	p.config.Logger = p.logger
	defer p.remove()
	var found []Finding
	for _, check := range checks {
		if err := p.makeDirs(); err != nil && os.Geteuid() == 0 {
			return nil, err
		}
		text, err := check.try(ctx, p)
		warned := warnings.take()
		switch {
		case err != nil:
			help := check.help
			if errors.As(err, new(unhelped)) {
				help = ""
			}
			found = append(found, Finding{check.fails, check.subject, strings.ReplaceAll(err.Error(), "\n", ": "), help})
		case text != "" && len(warned) == 0:
			found = append(found, Finding{OK, check.subject, text, ""})
		}
		for _, w := range warned {
			found = append(found, Finding{Lack, check.subject, w.text, cmp.Or(w.help, check.help)})
		}
		if err != nil && check.subject == "user" {
			break // nothing else can be tried
		}
	}
	p.remove()
	return found, errors.Join(p.unclean...)
}

// makeDirs makes a root and a state directory on the file systems of those that a daemon would have. A check may have removed them
// with what it made there.
func (p *patient) makeDirs() error {
	p.remove()
	for _, dir := range []struct{ wanted, made *string }{{&p.wanted.Root, &p.config.Root}, {&p.wanted.State, &p.config.State}} {
		made, err := os.MkdirTemp(onTheDisk(*dir.wanted), "jobd-doctor-")
		if err != nil {
			return err
		}
		p.dirs, *dir.made = append(p.dirs, made), made
		if err := os.Chmod(made, 0o711); err != nil { // as the daemon has them
			return err
		}
	}
	p.config.Socket = p.config.StateLayout().Socket()
	return nil
}

// onTheDisk returns a directory on the file system that a path is on, or would be: the one above it, if the path is not where another file
// system is mounted.
func onTheDisk(path string) string {
	above := existing(filepath.Dir(path))
	var of, at unix.Stat_t
	if unix.Stat(path, &of) == nil && unix.Stat(above, &at) == nil && of.Dev != at.Dev {
		return path
	}
	return above
}

// existing returns the path, or the lowest directory above it that exists.
func existing(path string) string {
	for {
		if info, err := os.Stat(path); err == nil && info.IsDir() || path == "/" {
			return path
		}
		path = filepath.Dir(path)
	}
}

func (p *patient) remove() {
	for _, dir := range p.dirs {
		if err := os.RemoveAll(dir); err != nil {
			p.unclean = append(p.unclean, fmt.Errorf("cannot remove what the examination has left: %w", err))
		}
	}
	p.dirs = nil
}

// undone notes what could not be undone.
func (p *patient) undone(err error) {
	if err != nil {
		p.unclean = append(p.unclean, err)
	}
}

// collector is a slog.Handler that keeps warnings as sentences.
type collector struct {
	mu       sync.Mutex
	warnings []lack
}

// lack is a warning.
type lack struct{ text, help string }

// helps is the attribute of a warning that says what to do.
const helps = "help"

func (c *collector) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (c *collector) Handle(_ context.Context, record slog.Record) error {
	text, help := record.Message, ""
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == helps {
			help = a.Value.String()
			return true
		}
		text += "; " + a.Key + ": " + strings.TrimSpace(a.Value.String())
		return true
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.warnings = append(c.warnings, lack{text, help})
	return nil
}

func (c *collector) WithAttrs([]slog.Attr) slog.Handler { return c }
func (c *collector) WithGroup(string) slog.Handler      { return c }

// take returns the warnings since the last call.
func (c *collector) take() []lack {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.warnings
	c.warnings = nil
	return taken
}
