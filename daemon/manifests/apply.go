package manifests

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	wire "github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/daemon/history"
	"github.com/jobd/jobd/runtime/crash"
	"github.com/jobd/jobd/store"
)

const (
	// requestTimeout is how long the API may take for one request.
	requestTimeout = 30 * time.Second
	// retryFirst and retryLast are how long it takes until what has not succeeded is tried again.
	retryFirst, retryLast = time.Second, time.Minute
)

// Options are what an Applier needs.
type Options struct {
	Dir    string
	Socket string // of the API
	Store  *store.Store
	Node   string // events are about it
	Logger *slog.Logger
}

// Applier applies what a directory says.
type Applier struct {
	Options
	client dynamic.Interface
	// known are the records by what they are about.
	known map[Ref]Record
	// settled are the objects that were as they should be since the start: what others change from then on is left to them.
	settled map[Ref]bool
	watch   watch
	told    told

	mu     sync.Mutex
	status Status
}

// Status is what has become of the directory.
type Status struct {
	Objects  int // applied, and still to be there
	Problems []Problem
	// Warnings are what the API has said of objects that it has taken.
	Warnings []Problem
}

// New makes what Run runs.
func New(o Options) (*Applier, error) {
	client, err := dynamic.NewForConfig(&rest.Config{
		Host: "http://jobd", QPS: -1, Timeout: requestTimeout, UserAgent: Manager,
		Impersonate: rest.ImpersonationConfig{UserName: Manager, Groups: []string{roles.AdminGroup}},
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", o.Socket)
		},
		WarningHandlerWithContext: warnings{},
	})
	if err != nil {
		return nil, err
	}
	return &Applier{Options: o, client: client, settled: map[Ref]bool{}, watch: watch{}, told: told{}}, nil
}

// Status returns what has become of the directory, as of the last look at it.
func (a *Applier) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Status{a.status.Objects, slices.Clone(a.status.Problems), slices.Clone(a.status.Warnings)}
}

// next is when the directory is looked at again, unless it changes before.
type next struct {
	failed bool          // something is to be tried again
	soon   bool          // at once
	after  time.Duration // a file is whole then, if nothing is written to it; 0: all are
}

// look reads the directory, and does what follows.
func (a *Applier) look(ctx context.Context, now time.Time) (then next) {
	var problems []trouble
	open := func(subject) bool { return true } // of which subjects it is not known whether they are in order
	files, err := Read(a.Dir)
	if err == nil && a.known == nil {
		err = a.recall()
	}
	if err != nil { // that nothing can be read does not say that nothing is to be there
		problems, then.failed = []trouble{{Problem: Problem{"", err.Error()}}}, true
	} else {
		after, slow := a.watch.look(files, now)
		then.after = after
		wanted, gone, wrong := Plan(files, a.values())
		for _, p := range slices.Concat(wrong, slow) {
			problems = append(problems, trouble{Problem: p})
		}
		unreadable := slices.ContainsFunc(files, func(f File) bool { return f.Err != nil || f.Moving })
		goes, done := map[Ref]bool{}, map[Ref]bool{}
		open = func(s subject) bool { return s.of != (Ref{}) && !done[s.of] && (unreadable || goes[s.of]) }
		fails := func(file string, of Ref, err error) {
			then.soon = then.soon || errors.Is(err, errRemoved)
			if then.failed = true; errors.Is(err, errGoing) || errors.Is(err, errRemoved) {
				goes[of] = true
				return
			}
			problems = append(problems, trouble{Problem{file, fmt.Sprintf("%s: %v", of, err)}, of})
		}
		// What is not wanted any more goes first: a Job that has moved to another name may need its room.
		for _, r := range gone {
			if err := a.remove(ctx, r); err != nil {
				fails(r.File, r.Ref, err)
			}
		}
		for i := range wanted {
			if ctx.Err() != nil {
				return next{}
			}
			if err := a.bring(ctx, &wanted[i]); err != nil {
				fails(wanted[i].File, wanted[i].Ref, err)
			} else {
				a.settled[wanted[i].Ref], done[wanted[i].Ref] = true, true
			}
		}
	}
	if ctx.Err() != nil {
		return next{}
	}
	a.tell(ctx, problems, open)
	return then
}

func (a *Applier) values() (all []Record) {
	for _, r := range a.known {
		all = append(all, r)
	}
	return all
}

func (a *Applier) recall() error {
	all, err := recall(a.Store)
	if err != nil {
		return err
	}
	a.known = map[Ref]Record{}
	for _, r := range all {
		a.known[r.Ref] = r
	}
	return nil
}

// note stores what is known of an object.
func (a *Applier) note(ctx context.Context, r Record) error {
	if err := note(ctx, a.Store, r); err != nil {
		return err
	}
	a.known[r.Ref] = r
	return nil
}

// bring brings an object about.
func (a *Applier) bring(ctx context.Context, o *Object) error {
	known, anew := a.known[o.Ref], !a.settled[o.Ref]
	if known.Hash == o.Hash && (o.runsOnce() || !anew) {
		if known.File != o.File { // it has moved
			known.File = o.File
			return a.note(ctx, known)
		}
		return nil
	}
	live, err := a.live(ctx, o.Resource, o.Ref, known)
	if err != nil {
		return err
	}
	return a.do(ctx, o, known, live, Decide(o, known, live, anew))
}

// What the file says is applied once what is there is gone: it is being removed, or has just been told to go.
var (
	errGoing   = errors.New("it is being removed")
	errRemoved = errors.New("it was removed, to be replaced")
)

func (a *Applier) do(ctx context.Context, o *Object, known Record, live Live, what Action) error {
	done := Record{
		Ref: o.Ref, File: o.File, Version: o.Resource.Version, Resource: o.Resource.Resource, Hash: o.Hash, Begun: o.Hash, UID: live.UID,
	}
	switch what {
	case Nothing:
		return nil
	case Remember:
		return a.note(ctx, done)
	case Wait:
		if live.Deleting {
			return errGoing
		}
		if err := a.try(ctx, o); err != nil {
			return err
		}
		return errors.New("it has changed in a way that a running one cannot: it is replaced once nothing of it runs")
	case Refuse:
		return fmt.Errorf("it exists already and was not applied from here: remove it, or hand it over by the label %s=%s", PartOf, SetID)
	}
	if what == Replace { // what is there stays as long as nothing could take its place
		if err := a.try(ctx, o); err != nil {
			return err
		}
	}
	begun := done
	begun.Hash, begun.At = known.Hash, time.Now()
	begun.UID = cmp.Or(live.UID, known.UID)
	if err := a.note(ctx, begun); err != nil {
		return err
	}
	crash.At("manifests.apply.begun")
	if what == Replace {
		if err := a.delete(ctx, o.Resource, o.Ref, live.UID); err != nil {
			return err
		}
		return errRemoved
	}
	uid, warned, err := a.apply(ctx, o)
	if apierrors.IsInvalid(err) && live.Exists {
		switch then := Immutable(o, live); then {
		case Refuse:
			return err
		default:
			return a.do(ctx, o, known, live, then)
		}
	}
	if err != nil {
		return err
	}
	crash.At("manifests.apply.done")
	done.UID, done.Warnings = string(uid), strings.Join(warned, "\n")
	return a.note(ctx, done)
}

func (a *Applier) resource(of schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	if namespace == "" {
		return a.client.Resource(of)
	}
	return a.client.Resource(of).Namespace(namespace)
}

// apply applies an object, and returns what the API warns of in it.
func (a *Applier) apply(ctx context.Context, o *Object) (uid types.UID, warned []string, err error) {
	text, err := json.Marshal(o.Body.Object)
	if err != nil {
		return "", nil, err
	}
	ctx = context.WithValue(ctx, warnings{}, &warned)
	u, err := a.resource(o.Resource, o.Namespace).Patch(ctx, o.Name, types.ApplyPatchType, text, metav1.PatchOptions{
		FieldManager: Manager, Force: ptr.To(true), FieldValidation: metav1.FieldValidationStrict,
	})
	if err != nil {
		return "", nil, err
	}
	for _, warning := range warned {
		a.Logger.Warn("a manifest was applied with a warning", "file", o.File, "object", o.Ref.String(), "warning", warning)
	}
	return u.GetUID(), warned, nil
}

// warnings collects what the API says of an object that it takes: a field or an annotation that does nothing. They go into the list that
// the context of a request has.
type warnings struct{}

const (
	maxWarnings = 10 // of one object
	maxWarning  = 500
)

func (warnings) HandleWarningHeaderWithContext(ctx context.Context, _ int, _, text string) {
	if list, ok := ctx.Value(warnings{}).(*[]string); ok && len(*list) < maxWarnings {
		if runes := []rune(text); len(runes) > maxWarning {
			text = string(runes[:maxWarning])
		}
		*list = append(*list, strings.ReplaceAll(text, "\n", " "))
	}
}

// try returns why an object could not be created in the place of one that is there. The API looks at all of it before it sees that the
// name is taken.
func (a *Applier) try(ctx context.Context, o *Object) error {
	_, err := a.resource(o.Resource, o.Namespace).Create(ctx, o.Body.DeepCopy(), metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldManager: Manager, FieldValidation: metav1.FieldValidationStrict,
	})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// live returns what there is of an object.
func (a *Applier) live(ctx context.Context, of schema.GroupVersionResource, r Ref, known Record) (l Live, err error) {
	u, err := a.resource(of, r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if r.runsOnce() && known.Begun != "" && known.Begun != known.Hash {
			l.RanSince, err = a.ranSince(r, known)
			return l, err
		}
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l = Live{
		Exists: true, Ours: u.GetLabels()[PartOf] == SetID, Deleting: u.GetDeletionTimestamp() != nil, UID: string(u.GetUID()),
		Hash: u.GetAnnotations()[batch.ManifestHashAnnotation],
	}
	switch r {
	case r.as("batch", "Job"):
		j := &batchv1.Job{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, j); err != nil {
			return l, err
		}
		l.Finished = batch.End(&j.Status) != nil
		l.Runs = !l.Finished && j.Status.Active+ptr.Deref(j.Status.Terminating, 0) > 0
	case r.as("", "Pod"):
		p := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, p); err != nil {
			return l, err
		}
		l.Finished = podspec.Ended(p)
		l.Runs = !l.Finished
	}
	return l, nil
}

// ranSince reports whether a Job was created after it was begun to be applied, and is gone by now: the history has it.
func (a *Applier) ranSince(r Ref, known Record) (ran bool, err error) {
	if r != r.as("batch", "Job") {
		return false, nil
	}
	err = a.Store.View(func(s *store.Snapshot) error {
		jobs, _, err := history.Read(s, wire.Query{Namespace: r.Namespace, Name: r.Name, Since: known.At.Truncate(time.Second)})
		ran = slices.ContainsFunc(jobs, func(j wire.Job) bool { return isRunOf(known, &j) })
		return err
	})
	return ran, err
}

func (a *Applier) delete(ctx context.Context, of schema.GroupVersionResource, r Ref, uid string) error {
	err := a.resource(of, r.Namespace).Delete(ctx, r.Name, metav1.DeleteOptions{
		PropagationPolicy: ptr.To(metav1.DeletePropagationForeground), Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID(uid))},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone, or another one is there by now
		return nil
	}
	return err
}

// remove removes an object that no file has any more, unless somebody else has made it.
func (a *Applier) remove(ctx context.Context, r Record) error {
	of := schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource}
	live, err := a.live(ctx, of, r.Ref, r)
	if err == nil && Removes(r, live) {
		err = a.delete(ctx, of, r.Ref, live.UID)
	}
	if err != nil {
		return fmt.Errorf("it cannot be removed: %w", err)
	}
	crash.At("manifests.remove.done")
	if err := forget(ctx, a.Store, r.Ref); err != nil {
		return err
	}
	delete(a.known, r.Ref)
	delete(a.settled, r.Ref)
	return nil
}

// tell publishes what is wrong: in the log, and as an event about the node, each problem once until it is over.
func (a *Applier) tell(ctx context.Context, all []trouble, open func(subject) bool) {
	problems := make([]Problem, 0, len(all))
	for _, t := range all {
		problems = append(problems, t.Problem)
	}
	a.mu.Lock()
	a.status = Status{Objects: len(a.known), Problems: problems, Warnings: a.warned()}
	a.mu.Unlock()
	for i, p := range a.told.news(all, open) {
		a.Logger.Warn("a manifest cannot be applied", "dir", a.Dir, "file", p.File, "error", p.Message)
		if i < maxEvents {
			if err := a.event(ctx, p); err != nil && ctx.Err() == nil {
				a.Logger.Warn("cannot write an event about a manifest", "error", err)
			}
		}
	}
}

// warned returns what the API has said of what was applied, in the order of the files.
func (a *Applier) warned() (all []Problem) {
	for _, r := range a.known {
		for text := range strings.SplitSeq(r.Warnings, "\n") {
			if text == "" {
				continue
			}
			all = append(all, Problem{r.File, fmt.Sprintf("%s: %s", r.Ref, text)})
		}
	}
	slices.SortFunc(all, func(a, b Problem) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Message, b.Message)) })
	return all[:min(len(all), maxShown)]
}

// maxShown is how many warnings are shown. All are in the log.
const maxShown = 100

// maxEvents is of how many problems a look at the directory makes events. All are in the log.
const maxEvents = 20

func (a *Applier) event(ctx context.Context, p Problem) error {
	now := time.Now()
	text := fmt.Sprintf("%s: %s", a.Dir, p.Message)
	if p.File != "" {
		text = fmt.Sprintf("%s/%s: %s", a.Dir, p.File, p.Message)
	}
	if runes := []rune(text); len(runes) > 1000 {
		text = string(runes[:1000])
	}
	e := &corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s.%x", a.Node, now.UnixNano())},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: a.Node, UID: types.UID(a.Node)},
		Reason:         "FailedManifest", Message: text, Type: corev1.EventTypeWarning, Count: 1,
		Source:         corev1.EventSource{Component: Manager, Host: a.Node},
		FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now),
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(e)
	if err != nil {
		return err
	}
	_, err = a.client.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(e.Namespace).
		Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldManager: Manager})
	return err
}
