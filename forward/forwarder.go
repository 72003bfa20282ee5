package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/internal/redirects"
)

// fieldManager names the forwarder among those who write objects.
const fieldManager = "jobd-forward"

// Options are what a Forwarder needs.
type Options struct {
	// Cluster is the name by which Jobs choose the cluster.
	Cluster       string
	Local, Remote *rest.Config
	// Namespaces are those of which the Jobs are forwarded, and those into which; nil: all, into those of the same names.
	Namespaces map[string]string
	// Secrets go with the Jobs that need them.
	Secrets bool
	Logger  *slog.Logger
}

// Forwarder forwards the Jobs of one cluster.
type Forwarder struct {
	Options
	local, remote kubernetes.Interface
	origin        Origin
	now           func() time.Time

	line  line
	queue workqueue.TypedRateLimitingInterface[key]
	retry workqueue.TypedRateLimiter[key]

	localJobs, remoteJobs, remotePods stores
	events                            chan arrival
	postponed                         chan struct{} // places of events that wait
	settling                          settling
	logs                              *logging
	beside                            sync.WaitGroup // what workers have begun

	mu   sync.Mutex
	jobd *bool // whether the cluster is a jobd; nil: it was not asked yet
}

// key is what is to be looked at: a Job here, or a pod there.
type key struct {
	kind            kind
	namespace, name string
}

type kind string

const (
	ofJob kind = "job"
	ofPod kind = "pod"
)

const (
	// workers is how many Jobs and pods are looked at at once.
	workers = 8
	// firstRetry and lastRetry are how long to wait after a step has failed, for the first time and at most; refusedRetry is the most after the
	// cluster has not taken a Job.
	firstRetry, lastRetry, refusedRetry = 200 * time.Millisecond, 30 * time.Second, 2 * time.Minute
	// mostEvents is how many events of the cluster may wait to be copied. More are lost.
	mostEvents = 4000
	// sweepInterval is how often it is looked whether something was left in the cluster.
	sweepInterval = time.Minute
)

// New makes a Forwarder.
func New(o Options) (*Forwarder, error) {
	// Whoever has the cluster could read by its logs what this machine alone reaches, such as a cloud's metadata.
	o.Local, o.Remote = rest.CopyConfig(o.Local), rest.CopyConfig(o.Remote)
	redirects.Refuse(o.Local)
	redirects.Refuse(o.Remote)
	local, err := kubernetes.NewForConfig(o.Local)
	if err != nil {
		return nil, err
	}
	remote, err := kubernetes.NewForConfig(o.Remote)
	if err != nil {
		return nil, err
	}
	if err := checkNamespaces(o.Namespaces); err != nil {
		return nil, err
	}
	retry := workqueue.NewTypedItemExponentialFailureRateLimiter[key](firstRetry, refusedRetry)
	return &Forwarder{
		Options: o, local: local, remote: remote, now: time.Now, retry: retry, queue: workqueue.NewTypedRateLimitingQueue[key](retry),
		events: make(chan arrival, mostEvents), postponed: make(chan struct{}, mostEvents), logs: newLogging(),
	}, nil
}

func checkNamespaces(mapped map[string]string) error {
	seen := map[string]bool{}
	for from, to := range mapped {
		for _, name := range []string{from, to} {
			if wrong := utilvalidation.IsDNS1123Label(name); len(wrong) > 0 { // without a name it would be all of them
				return fmt.Errorf("namespace %q: %s", name, wrong[0])
			}
		}
		if seen[to] {
			return fmt.Errorf("two namespaces are forwarded into %s, where their Jobs would take each other's names", to)
		}
		seen[to] = true
	}
	return nil
}

// Run forwards Jobs until ctx ends.
func (f *Forwarder) Run(ctx context.Context) error {
	if err := f.introduce(ctx); err != nil {
		return err
	}
	var all sync.WaitGroup
	begin := func(run func(context.Context)) { all.Go(func() { run(ctx) }) }
	f.watch(begin)
	begin(f.probe)
	begin(f.beat)
	begin(f.copyEvents)
	begin(f.sweeping)
	for range workers {
		begin(f.work)
	}
	<-ctx.Done()
	f.queue.ShutDown()
	all.Wait()
	f.beside.Wait()
	return nil
}

func (f *Forwarder) work(ctx context.Context) {
	for {
		k, over := f.queue.Get()
		if over {
			return
		}
		err := f.sync(ctx, k)
		switch {
		case err == nil:
			f.queue.Forget(k)
		case ctx.Err() == nil:
			f.again(k, err)
		}
		f.queue.Done(k)
	}
}

// again has something looked at again after an error.
func (f *Forwarder) again(k key, err error) {
	after := f.retry.When(k)
	switch {
	case errors.Is(err, errRefused): // its status says so
		f.queue.AddAfter(k, after)
		return
	case errors.Is(err, errLogs): // whoever has brought them has it looked at: of many that wait, to ask again would keep those from that
		after = lastRetry
	case apierrors.IsConflict(err), errors.Is(err, errNoJob): // something changes meanwhile
	default:
		f.Logger.Warn("will be tried again", string(k.kind), k.namespace+"/"+k.name, "error", err)
	}
	f.queue.AddAfter(k, min(after, lastRetry))
}

func (f *Forwarder) sync(ctx context.Context, k key) error {
	if k.kind == ofPod {
		return f.syncPod(ctx, k)
	}
	l := f.localJob(k.namespace, k.name)
	if l == nil {
		f.settling.forget(k)
		return nil
	}
	s := Seen{Local: l, Namespace: f.into(l.Namespace), Silent: f.line.since(), Origin: f.origin}
	if s.Silent.IsZero() {
		var err error
		if s.Remote, err = f.remoteJob(ctx, l); err == nil && !s.mine() && !finished(l) {
			s.Cluster, err = f.identity(ctx)
		}
		if err != nil {
			return err
		}
	}
	now := f.now()
	step, again := Decide(s, now)
	if again.IsZero() && !finished(l) && !f.remoteJobs.watches(f.there(l)) { // its namespace was mapped to another one since it was made
		again = now.Add(retaken)
	}
	if !again.IsZero() {
		f.queue.AddAfter(k, again.Sub(now))
	}
	if step == Nothing {
		return nil
	}
	f.Logger.Debug("next", "job", k.namespace+"/"+k.name, "step", step)
	return f.take(ctx, step, s)
}

// take takes a step.
func (f *Forwarder) take(ctx context.Context, step Step, s Seen) error {
	l, r := s.Local, s.Remote
	switch step {
	case Take:
		return f.hold(ctx, s)
	case Create:
		return f.create(ctx, l)
	case Adopt:
		return f.adopt(ctx, l, r)
	case Pass:
		return f.pass(ctx, l, r)
	case Bring:
		return f.bring(ctx, l, r)
	case Fail:
		return f.fail(ctx, l)
	case Remove:
		return f.remove(ctx, l, r)
	case Release:
		return f.release(ctx, l)
	case Sweep:
		if swept, err := f.sweep(ctx, r, f.remote.BatchV1().Jobs(r.Namespace)); swept || err != nil {
			return err
		}
		return f.tellTaken(ctx, l, r) // of another namespace, which was mapped to this one
	case TellTaken:
		return f.tellTaken(ctx, l, r)
	case TellElsewhere:
		return f.tellElsewhere(ctx, s)
	case TellUnreachable:
		return f.tell(ctx, l, clusters.Unreachable, "NoAnswer", fmt.Sprintf(
			"The cluster %s has not answered since %s%s. What is heard instead: %s",
			f.Cluster, s.Silent.UTC().Format(time.RFC3339), goesOn(l), f.line.instead()))
	}
	return nil
}

// goesOn says what becomes meanwhile of a Job that is in a cluster which does not answer.
func goesOn(l *batchv1.Job) string {
	if record := clusters.RecordOf(l); record == nil || record.UID == "" { // why says that it is not there, by all that is known
		return ""
	}
	return "; what was made there goes on"
}

// into returns the namespace of the cluster in which the Jobs of one here are made.
func (f *Forwarder) into(here string) string {
	if f.Namespaces == nil {
		return here
	}
	return f.Namespaces[here]
}

// there returns the namespace of the cluster in which a Job was made, or may have been: it may have been mapped to another one since.
func (f *Forwarder) there(l *batchv1.Job) string {
	if record := clusters.RecordOf(l); record != nil && record.Namespace != "" {
		return record.Namespace
	}
	return f.into(l.Namespace)
}

// remoteJob returns the Job there that has the name of one here; nil if there is none, which only the cluster itself can say.
func (f *Forwarder) remoteJob(ctx context.Context, l *batchv1.Job) (r *batchv1.Job, err error) {
	namespace := f.there(l)
	if r, ok := f.remoteJobs.get(namespace, l.Name).(*batchv1.Job); ok && r.Labels[clusters.OriginUIDLabel] == string(l.UID) {
		return r, nil
	}
	err = f.ask(ctx, func(ctx context.Context) (err error) {
		r, err = f.remote.BatchV1().Jobs(namespace).Get(ctx, l.Name, metav1.GetOptions{})
		return err
	})
	if isGone(err) {
		return nil, nil
	}
	return r, err
}

// isGone reports whether a server says that it does not have an object. That something else answers instead of it tells nothing of that.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
