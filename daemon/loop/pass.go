package loop

import (
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/daemon/aside"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/metrics"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// Budget is how many objects a pass writes before it leaves the rest to the next one, so that nobody else waits long
// for the store, and what it holds in memory is bounded. It reads no more than twice as many.
const Budget = 1000

// JoinedBudget is the budget of a pass that is written together with what it follows from, whose writer waits for it.
const JoinedBudget = 20

// ByteBudget is how many bytes of objects a pass reads and writes before it leaves the rest to the next one. All of them are
// held until the pass is durable, and objects may be a thousand times as large as most are.
const ByteBudget = 32 << 20

// StepBudget is how much a pass compares, besides what it writes, before it leaves the rest to the next one: some tens of
// milliseconds (Pass.Worked).
const StepBudget = 500_000

// Pass is one turn of the loop: one transaction that takes in what has happened, decides what follows from it until
// nothing more does, and writes all of it. After an error nothing of it was written.
type Pass struct {
	// Now is the time that everything in the pass is decided for.
	Now time.Time
	// Pods, Jobs and CronJobs are the objects that most decisions are about, as the pass has left them.
	Pods     *View[*corev1.Pod]
	Jobs     *View[*batchv1.Job]
	CronJobs *View[*batchv1.CronJob]
	// Figures are what the pass adds to the metrics once it is durable.
	Figures metrics.Figures

	loop     *Loop
	tx       *store.Tx
	observed map[types.UID][]duty.Observation
	effects  []func()
	budget   int
	written  int
	decoded  int // objects that are held until the pass ends
	bytes    int // of what was decoded, and of what was or will be written
	steps    int // of work that neither reads nor writes objects
	// exhausted says that the budget was used up before everything was looked at.
	exhausted bool
	// asked is how many controllers, from the first on, were asked when the budget was used up; 0 if all were.
	asked   int
	version uint64 // of the last write
	failed  error  // of a write that could not return it
	culprit work   // what it was at work on when it first failed
	concern string // of the controller that is at work
	aside   []aside.Change

	quotas map[string]*[]corev1.ResourceQuota // by namespace
	freed  []string                           // the namespaces whose ResourceQuotas allow more now
}

func (l *Loop) newPass(tx *store.Tx, now time.Time) *Pass {
	p := &Pass{loop: l, tx: tx, Now: now, budget: Budget, version: tx.Version(), Figures: l.Metrics.Figures(),
		quotas: map[string]*[]corev1.ResourceQuota{}}
	p.Jobs = newView(p, objects.Jobs, func() *batchv1.Job { return &batchv1.Job{} })
	p.CronJobs = newView(p, objects.CronJobs, func() *batchv1.CronJob { return &batchv1.CronJob{} })
	p.Pods = newView(p, objects.Pods, func() *corev1.Pod { return &corev1.Pod{} })
	return p
}

// run runs the whole pass. After an error nothing was written, but the records may be ahead of the store.
func (p *Pass) run(reports [][]duty.Observation) error {
	for _, step := range []func() error{
		p.fold,
		func() error { p.observe(reports); return nil },
		p.due,
		p.settle,
		p.finish,
		p.tellAside,
		func() error { p.turnTo("what is to be written"); return nil },
		p.Pods.flush,
		p.Jobs.flush,
		p.CronJobs.flush,
	} {
		err := step()
		if p.notice(); err != nil && p.culprit == (work{}) {
			p.culprit = p.loop.work
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(p.failed, p.tx.Err())
}

// fold lets the controllers take in what others have written since the last pass.
func (p *Pass) fold() error {
	var failed error
	for _, namespace := range p.loop.freed {
		for _, f := range p.loop.concerns.quotaFollowers {
			f.QuotaFreed(p, namespace)
		}
	}
	durable := p.loop.Store.Version()
	err := p.tx.Changes(p.loop.folded, func(c store.Change) bool {
		if c.Object.Version > durable {
			p.loop.unstored.add(c.Object.Key)
		}
		if c.Deleted {
			p.gone(c.Object)
		}
		change := Change{Change: c, Resource: objects.ResourceOf(c.Object.Key)}
		if change.Resource == objects.Namespaces && !c.Deleted {
			change.namespace = decoder(c.Object)
		}
		if change.Resource == storage.ResourceQuotaResource {
			namespace, _ := objects.NameOf(c.Object.Key)
			for _, f := range p.loop.concerns.quotaFollowers {
				f.QuotaFreed(p, namespace)
			}
		}
		if failed = p.foldAside(change); failed != nil {
			return false
		}
		for i, controller := range p.loop.concerns.all {
			p.concern = p.loop.concerns.names[i]
			if failed = p.foldInto(controller, change); failed != nil {
				return false
			}
		}
		return true
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return fmt.Errorf("fold changes: %w", err)
	}
	return nil
}

// foldInto lets a controller take in a change, unless the object was set aside.
func (p *Pass) foldInto(c Controller, change Change) error {
	if p.Works(change.Object.Key) {
		if f, ok := c.(NamespaceFollower); ok && change.namespace != nil {
			ns, err := change.namespace()
			if err == nil {
				err = f.NamespaceChanged(p, ns)
			}
			if err != nil {
				return err
			}
		}
		return c.Fold(p, change)
	}
	p.turnTo(p.concern)
	if change.Deleted {
		return c.Fold(p, change)
	}
	if f, ok := c.(AsideFollower); ok {
		return f.ChangedAside(p, change)
	}
	return nil
}

// gone tells the controllers that follow the removal of objects that one is gone.
func (p *Pass) gone(o store.Object) {
	for _, f := range p.loop.concerns.followers {
		f.Gone(p, o)
	}
	if objects.ResourceOf(o.Key) != objects.Namespaces {
		return
	}
	_, name := objects.NameOf(o.Key)
	for _, c := range p.loop.concerns.all {
		if f, ok := c.(NamespaceFollower); ok {
			p.failed = errors.Join(p.failed, f.NamespaceGone(p, name))
		}
	}
}

// observe sorts the observations by their pods.
func (p *Pass) observe(reports [][]duty.Observation) {
	p.observed = make(map[types.UID][]duty.Observation, len(reports))
	for _, report := range reports {
		for len(report) > 0 { // most are about one pod: no need to copy them
			uid, n := report[0].UID, 1
			for n < len(report) && report[n].UID == uid {
				n++
			}
			if before, ok := p.observed[uid]; ok {
				p.observed[uid] = append(before, report[:n]...)
			} else {
				p.observed[uid] = report[:n:n]
			}
			report = report[n:]
			for _, o := range p.loop.concerns.observers {
				o.Observed(uid)
			}
		}
	}
}

// TakeObserved returns what the workers have observed of a pod, and forgets it: the caller has to take it in.
func (p *Pass) TakeObserved(uid types.UID) []duty.Observation {
	taken := p.observed[uid]
	delete(p.observed, uid)
	p.Figures.Observations += len(taken)
	return taken
}

// unsettled returns the observations that the pass did not come to, of pods that are still of interest, and those of pods that
// were set aside.
func (p *Pass) unsettled() (rest, aside [][]duty.Observation) {
	for uid, observed := range p.observed {
		for _, o := range p.loop.concerns.observers {
			if o.Observes(uid) {
				rest = append(rest, observed)
				break
			}
			if o.Awaits(uid) {
				aside = append(aside, observed)
				break
			}
		}
	}
	return rest, aside
}

// due lets the controllers look at the timers that have expired, as many as one pass should take on.
func (p *Pass) due() error {
	for i, k := range p.loop.timers.expired(p.Now, p.budget) {
		if i > 0 && p.Room() == 0 {
			p.loop.timers.Set(k.of, k.key, p.Now)
			p.exhausted = true
			continue
		}
		p.concern = p.loop.concerns.nameOf[k.of]
		if !p.Works(k.key) {
			continue
		}
		if err := k.of.Due(p, k.key); err != nil {
			return err
		}
	}
	return nil
}

// settle lets the controllers decide until nothing more follows, or the budget is used up. After each decision the first
// of them that has something to look at goes on. There is one at least. However much clients have written, taking it in leaves
// half of the budget for decisions: else the first controllers would use up each pass, and the last ones would get no turn.
func (p *Pass) settle() error {
	p.bytes, p.decoded, p.steps = min(p.bytes, ByteBudget/2), min(p.decoded, p.budget), min(p.steps, StepBudget/2)
	if err := p.settleUnasked(); err != nil {
		return err
	}
	for first := true; first || !p.Spent(); first = false {
		settled := false
		for i := range p.loop.concerns.all {
			var err error
			if settled, err = p.settleOne(i); err != nil {
				return err
			}
			if settled {
				p.asked = i + 1
				break
			}
		}
		if !settled {
			p.asked = 0
			return nil
		}
	}
	p.exhausted = true
	return nil
}

// settleUnasked lets those controllers decide that the last pass did not ask, since it was used up by one before them: they
// share half of what the pass has left, and each takes one decision at least. So none waits for another to have nothing to do.
func (p *Pass) settleUnasked() error {
	first, end := p.loop.asked, len(p.loop.concerns.all)
	if first == 0 {
		return nil
	}
	before := p.used()
	for i := first; i < end; i++ {
		share := before + (1-before)/2*float64(i+1-first)/float64(end-first)
		for more := true; more; more = more && p.used() < share {
			var err error
			if more, err = p.settleOne(i); err != nil {
				return err
			}
		}
	}
	return nil
}

// settleOne lets a controller take a decision, and reports whether it had one to take.
func (p *Pass) settleOne(i int) (bool, error) {
	p.turnTo(p.loop.concerns.names[i])
	return p.loop.concerns.all[i].Settle(p)
}

func (p *Pass) finish() error {
	for _, f := range p.loop.concerns.finishers {
		p.turnTo(p.loop.concerns.nameOf[f.(Controller)])
		if err := f.Finish(p); err != nil {
			return err
		}
	}
	return nil
}

// Joined reports whether the pass is written together with what it follows from.
func (p *Pass) Joined() bool { return p.budget == JoinedBudget }

// Spent reports whether the pass should leave the rest to the next one.
func (p *Pass) Spent() bool { return p.used() >= 1 }

// used is which part of its budgets the pass has used up, of the one that is used up most.
func (p *Pass) used() float64 {
	part := func(of, budget int) float64 { return float64(of) / float64(budget) }
	return max(part(p.written, p.budget), part(p.decoded, 2*p.budget), part(p.steps, StepBudget), part(p.bytes, ByteBudget))
}

// Room returns how many bytes of objects the pass should still read and write.
func (p *Pass) Room() int { return max(0, ByteBudget-p.bytes) }

// Worked counts steps of work that neither reads nor writes objects, such as comparing a pod with the rules of others.
func (p *Pass) Worked(steps int) { p.steps += steps }

// LookedAt counts an object of a size that is decoded and not held: as many of them as a pass may hold are all of its steps.
func (p *Pass) LookedAt(size int) { p.Worked(1 + size*StepBudget/ByteBudget) }

// Snapshot is the store as it was when the pass began.
func (p *Pass) Snapshot() *store.Snapshot { return p.tx.Snapshot }

// Get reads a stored object as the pass has left it. Pods, Jobs and CronJobs are better read from their views.
func (p *Pass) Get(key string) (store.Object, bool) {
	o, ok := p.tx.Get(key)
	p.bytes += len(o.Value)
	return o, ok
}

// Size returns how many bytes are stored at a key, 0 if there is nothing.
func (p *Pass) Size(key string) int {
	o, _ := p.tx.Get(key)
	return len(o.Value)
}

// Version is that of the last write: its resourceVersion.
func (p *Pass) Version() uint64 { return p.version }

// After calls do once the pass is durable. do must not block.
func (p *Pass) After(do func()) { p.effects = append(p.effects, do) }

// Event records what happened to an object, unless the rules against floods drop it.
func (p *Pass) Event(about corev1.ObjectReference, component, kind, reason, message string) error {
	e := p.loop.Events.Event(about, component, kind, reason, message, p.Now)
	if e == nil {
		return nil
	}
	p.written++
	return p.put(store.Key(objects.Events, e.Namespace, e.Name), e, p.Now.Add(p.loop.EventTTL))
}

// Put writes an object.
func (p *Pass) Put(key string, obj objects.Object) error {
	p.written++
	return p.put(key, obj, time.Time{})
}

// PutStatus writes an object of which nothing but the metadata and the status differs from what is stored.
func (p *Pass) PutStatus(key string, obj objects.Object) error {
	stored, ok := p.tx.Get(key)
	if !ok {
		return p.Put(key, obj)
	}
	p.written++
	obj.SetResourceVersion("")
	value, err := scheme.EncodeStatus(stored.Value, obj)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return p.putValue(key, obj, value, time.Time{})
}

// put writes an object that is to be removed at a time, unless that is zero. Whoever calls it has counted that.
func (p *Pass) put(key string, obj objects.Object, expires time.Time) error {
	obj.SetResourceVersion("")
	value, err := scheme.Encode(obj)
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return p.putValue(key, obj, value, expires)
}

func (p *Pass) putValue(key string, obj objects.Object, value []byte, expires time.Time) error {
	var owners []string
	for _, o := range obj.GetOwnerReferences() {
		owners = append(owners, string(o.UID))
	}
	p.bytes += len(value)
	o := store.Object{Key: key, UID: string(obj.GetUID()), Owners: owners, Value: value}
	if !expires.IsZero() {
		o.Expires = expires.Unix()
	}
	freed, err := storage.Put(p.tx, &o)
	if err != nil {
		return err
	}
	p.wrote(key, o.Version, freed)
	return nil
}

// wrote takes in that an object was written or deleted, and whether its namespace's ResourceQuotas allow more now.
func (p *Pass) wrote(key string, version uint64, freed bool) {
	p.version = version
	if namespace, _ := objects.NameOf(key); freed && !slices.Contains(p.freed, namespace) {
		p.freed = append(p.freed, namespace)
	}
}

// Quotas returns the ResourceQuotas of a namespace, with what the pass is about to create added to what is used. It may be
// set to what package quota makes of it.
func (p *Pass) Quotas(namespace string) (*[]corev1.ResourceQuota, error) {
	quotas, ok := p.quotas[namespace]
	if !ok {
		found, err := storage.ResourceQuotas(p.tx, namespace)
		if err != nil {
			return nil, err
		}
		quotas = &found
		p.quotas[namespace] = quotas
	}
	return quotas, nil
}

// PutStored writes something that is not an object of the API.
func (p *Pass) PutStored(o store.Object) {
	p.version = p.tx.Put(o)
	p.bytes += len(o.Value)
	p.written++
}

// Delete removes what is stored at a key, if there is anything.
func (p *Pass) Delete(key string) {
	o, ok := p.tx.Get(key)
	if !ok {
		return
	}
	version, freed, err := storage.Delete(p.tx, key)
	if err != nil {
		p.failed = errors.Join(p.failed, err)
		return
	}
	p.written++
	p.wrote(key, version, freed)
	if p.loop.Aside.Knows(key) {
		p.aside = append(p.aside, aside.Change{Key: key, UID: o.UID, Version: version, Deleted: true})
	}
	p.gone(o)
}
