// Package diskuse measures what jobd has on the disk, for `jobctl df`: what lies below its root, by kind and by whose it is.
//
// The directories of the root come in, and what is stored, by which their names are told apart; a Report of api/diskuse goes out. It
// walks through files, so it is asked by people, and one at a time. It changes nothing.
package diskuse

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	wire "github.com/jobd/jobd/api/diskuse"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime"
	"github.com/jobd/jobd/runtime/untrusted"
	"github.com/jobd/jobd/store"
)

// freshFor is for how long a measurement is answered again: whoever looks twice does not walk through everything twice.
const freshFor = 10 * time.Second

// Options are what a Meter needs.
type Options struct {
	Root  string
	Store *store.Store
	// Images says what each has; nil: there are none.
	Images func(context.Context) ([]runtime.ImageUsage, error)
	// AuditLog is the file of the audit log, which may be anywhere; empty for none.
	AuditLog string
	Bounds   Bounds
}

// Bounds say in words what bounds each kind.
type Bounds struct{ Images, Logs, KeptLogs, Pods, KeptFiles, Claims, Database, History, Events, Notices, AuditLog string }

// Meter measures. Its methods may be called from any goroutine. It is made by New.
type Meter struct {
	Options

	turn *semaphore.Weighted // held by whoever measures
	last *wire.Report
}

// New makes a Meter.
func New(o Options) *Meter { return &Meter{Options: o, turn: semaphore.NewWeighted(1)} }

// Measure returns what there is. It waits for one that is under way, and ends with the context.
func (m *Meter) Measure(ctx context.Context) (*wire.Report, error) {
	if err := m.turn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer m.turn.Release(1)
	if m.last != nil && time.Since(m.last.At) < freshFor {
		return m.last, nil
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(m.Root, &fs); err != nil {
		return nil, err
	}
	r := &wire.Report{At: time.Now(), Root: m.Root, Size: int64(fs.Blocks) * fs.Bsize, Free: int64(fs.Bavail) * fs.Bsize}
	root := layout.Root(m.Root)
	k, err := m.look(ctx)
	if err != nil {
		return nil, err
	}
	for _, measure := range []func(context.Context, layout.Root, *known) ([]wire.Use, error){
		m.images, m.logs, m.pods, m.claims, m.database, m.auditLog,
	} {
		uses, err := measure(ctx, root, k)
		if err = cmp.Or(err, ctx.Err()); err != nil {
			return nil, err
		}
		r.Uses = append(r.Uses, uses...)
	}
	r.Jobs, r.JobCount = k.byJob()
	m.last = r
	return r, nil
}

// images are the content and the snapshots of images, with what containers have written to their own file systems.
func (m *Meter) images(ctx context.Context, root layout.Root, k *known) ([]wire.Use, error) {
	used, err := untrusted.Usage(ctx, root.Containerd())
	use := wire.Use{Kind: "images", Bound: m.Bounds.Images, Bytes: used.Bytes}
	if err != nil || m.Images == nil {
		return []wire.Use{use}, err
	}
	list, err := m.Images(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]wire.Owner, 0, len(list))
	for _, i := range list {
		o := wire.Owner{Name: strings.Join(i.Names, ", "), Bytes: i.Size, Shared: i.Shared}
		users := sets.New[string]()
		for _, name := range i.Names {
			users = users.Union(k.images[name])
		}
		o.UsedBy, o.UserCount = named(users)
		all = append(all, o)
	}
	use.Owners, use.Count = most(all)
	return []wire.Use{use}, nil
}

// named returns the users that are named of all, and how many there are.
func named(users sets.Set[string]) ([]string, int) {
	list := sets.List(users)
	return list[:min(len(list), wire.MaxUsers)], len(list)
}

// tally is what each owner has.
type tally map[string]int64

// owners returns those that have most first, and how many there are.
func (t tally) owners() ([]wire.Owner, int) {
	all := make([]wire.Owner, 0, len(t))
	for name, n := range t {
		all = append(all, wire.Owner{Name: name, Bytes: n})
	}
	return most(all)
}

// most returns those that have most, and how many there are.
func most(all []wire.Owner) ([]wire.Owner, int) {
	slices.SortFunc(all, func(a, b wire.Owner) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name)) })
	return all[:min(len(all), wire.MaxOwners)], len(all)
}

// use returns all that there is of a kind, and notes what of that Jobs have.
func (t tally) use(k *known, kind, bound string) wire.Use {
	use := wire.Use{Kind: kind, Bound: bound}
	for name, n := range t {
		use.Bytes += n
		k.note(kind, name, n)
	}
	use.Owners, use.Count = t.owners()
	return use
}

// entries calls do with the names in a directory, which may not exist, and with what each uses of the disk.
func entries(ctx context.Context, dir string, do func(name, path string, bytes int64) error) error {
	d, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range d {
		path := filepath.Join(dir, e.Name())
		used, err := untrusted.Usage(ctx, path)
		if err == nil {
			err = do(e.Name(), path, used.Bytes)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// ownerOf names the Job of a pod, or the pod.
func ownerOf(p *corev1.Pod) string {
	if objects.ControllingJob(p) != "" {
		for _, ref := range p.OwnerReferences {
			if ref.UID == objects.ControllingJob(p) {
				return "jobs/" + p.Namespace + "/" + ref.Name
			}
		}
	}
	return "pods/" + p.Namespace + "/" + p.Name
}

// logs are those of pods that there are, and those that are kept of pods that are gone.
func (m *Meter) logs(ctx context.Context, root layout.Root, k *known) ([]wire.Use, error) {
	here, kept := tally{}, tally{}
	err := entries(ctx, root.Logs(), func(name, path string, used int64) error {
		_, uid, _ := cutLast(name, "_")
		if p, ok := k.pods[uid]; ok {
			here[p.owner] += used
			return nil
		}
		kept[keptFor(path, name)] += used
		return nil
	})
	return []wire.Use{here.use(k, "logs", m.Bounds.Logs), kept.use(k, "kept logs", m.Bounds.KeptLogs)}, err
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// keptFor names the Job for which logs are kept: as the record beside them says.
func keptFor(path, name string) string {
	var record struct{ Namespace, Job string }
	text, err := os.ReadFile(filepath.Join(path, "pod.json"))
	if err == nil && json.Unmarshal(text, &record) == nil && record.Job != "" {
		return "jobs/" + record.Namespace + "/" + record.Job
	}
	return name
}

// pods are the volumes of pods that run, and what is kept of pods that have ended.
func (m *Meter) pods(ctx context.Context, root layout.Root, k *known) ([]wire.Use, error) {
	running, kept := tally{}, tally{}
	err := entries(ctx, root.Pods(), func(uid, _ string, used int64) error {
		switch p, ok := k.pods[uid]; {
		case !ok:
			running["pods that are being removed"] += used
		case p.ended:
			kept[p.owner] += used
		default:
			running[p.owner] += used
		}
		return nil
	})
	return []wire.Use{running.use(k, "volumes of pods", m.Bounds.Pods), kept.use(k, "kept files", m.Bounds.KeptFiles)}, err
}

// claims are the volumes that outlive pods.
func (m *Meter) claims(ctx context.Context, root layout.Root, k *known) ([]wire.Use, error) {
	of := tally{}
	err := entries(ctx, root.Volumes(), func(name, _ string, used int64) error {
		owner := "persistentvolumes/" + name
		if err := m.Store.View(func(s *store.Snapshot) error {
			v := &corev1.PersistentVolume{}
			ok, err := objects.Read(s, store.Key(objects.Volumes, "", name), v)
			if ok && v.Spec.ClaimRef != nil {
				owner = "persistentvolumeclaims/" + v.Spec.ClaimRef.Namespace + "/" + v.Spec.ClaimRef.Name
			}
			return err
		}); err != nil {
			return err
		}
		of[owner] += used
		return nil
	})
	use := of.use(k, "claims", m.Bounds.Claims)
	for i, o := range use.Owners {
		use.Owners[i].UsedBy, use.Owners[i].UserCount = named(k.claims[o.Name])
	}
	return []wire.Use{use}, err
}

// database is the file of the database, and what of it is known to grow: the history, events and notices.
func (m *Meter) database(_ context.Context, root layout.Root, _ *known) ([]wire.Use, error) {
	all, err := onDisk(root.Database() + "*")
	if err != nil {
		return nil, err
	}
	uses := []wire.Use{{Kind: "history", Bound: m.Bounds.History}, {Kind: "events", Bound: m.Bounds.Events}, {Kind: "notices", Bound: m.Bounds.Notices}}
	if err := m.Store.View(func(s *store.Snapshot) (err error) {
		uses[1].Bytes = stored(s, objects.Events)
		uses[2].Bytes = stored(s, objects.Notices, objects.NoticeMemories, objects.NoticeMarks, objects.NoticeStandings)
		uses[0].Bytes, err = history.Size(s)
		return err
	}); err != nil {
		return nil, err
	}
	for _, use := range uses {
		all -= use.Bytes
	}
	return append(uses, wire.Use{Kind: "database", Bytes: max(0, all), Bound: m.Bounds.Database}), nil
}

// stored returns how many bytes the objects of resources have in the database.
func stored(s *store.Snapshot, resources ...string) (bytes int64) {
	for _, resource := range resources {
		s.Range(resource+"/", "", func(o store.Object) bool {
			bytes += int64(len(o.Key) + len(o.Value))
			return true
		})
	}
	return bytes
}

// onDisk returns what the files of a pattern take.
func onDisk(pattern string) (bytes int64, err error) {
	files, err := filepath.Glob(pattern)
	for _, path := range files {
		var s unix.Stat_t
		if unix.Lstat(path, &s) == nil && s.Mode&unix.S_IFMT == unix.S_IFREG {
			bytes += s.Blocks * 512
		}
	}
	return bytes, err
}

// auditLog is the file of the audit log, with those that it was before: NAME-TIME.EXTENSION, and .gz.
func (m *Meter) auditLog(context.Context, layout.Root, *known) ([]wire.Use, error) {
	if m.AuditLog == "" || m.AuditLog == "-" {
		return nil, nil
	}
	extension := filepath.Ext(m.AuditLog)
	now, err := onDisk(literally(m.AuditLog))
	if err != nil {
		return nil, err
	}
	before, err := onDisk(literally(strings.TrimSuffix(m.AuditLog, extension)) + "-[0-9]*" + literally(extension) + "*")
	return []wire.Use{{Kind: "audit log", Bytes: now + before, Bound: m.Bounds.AuditLog}}, err
}

// literally returns a pattern that only a path itself has.
func literally(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
