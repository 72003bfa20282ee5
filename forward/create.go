package forward

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/internal/handover"
)

// create makes the Job there, with what it needs, unless it would not run there as it does here.
func (f *Forwarder) create(ctx context.Context, l *batchv1.Job) error {
	namespace := f.there(l)
	b, err := f.pack(ctx, l, namespace)
	if err != nil {
		return f.orRefuse(ctx, l, err)
	}
	c := Copy(l, namespace, f.origin)
	wrong, err := f.wrong(ctx, c, b)
	switch {
	case apierrors.IsConflict(err): // it was made meanwhile
		return err
	case err != nil:
		return f.orRefuse(ctx, l, err)
	case len(wrong) > 0:
		return f.refuse(ctx, l, strings.Join(wrong, "; "))
	}
	if err := f.send(ctx, b); err != nil {
		return f.orRefuse(ctx, l, err)
	}
	b.rename(c)
	if err := f.unchanged(ctx, l); err != nil {
		return err
	}
	made, err := f.make(ctx, c, nil)
	switch {
	case apierrors.IsAlreadyExists(err):
		return err // by an earlier request, or by somebody else: Decide finds out
	case err != nil:
		return f.orRefuse(ctx, l, err)
	}
	f.event(ctx, l, corev1.EventTypeNormal, "Forwarded", fmt.Sprintf("Created job %s/%s in the cluster %s", made.Namespace, made.Name, f.Cluster))
	return f.adopt(ctx, l, made) // at once: whoever removed it before would have it made again
}

// unchanged asks whether the Job is as it was decided on. A write here is refused if it is not; one there would make a Job again that is
// known to have been made, and removed, where that has not come through the watch yet.
func (f *Forwarder) unchanged(ctx context.Context, l *batchv1.Job) error {
	return f.ask(ctx, func(ctx context.Context) error {
		is, err := f.local.BatchV1().Jobs(l.Namespace).Get(ctx, l.Name, metav1.GetOptions{})
		if err == nil && (is.UID != l.UID || is.ResourceVersion != l.ResourceVersion) {
			err = apierrors.NewConflict(batchv1.Resource("jobs"), l.Name, errors.New("it has changed meanwhile"))
		}
		return err
	})
}

// make makes a Job there, or has the cluster try whether it could be made.
func (f *Forwarder) make(ctx context.Context, c *batchv1.Job, dryRun []string) (made *batchv1.Job, err error) {
	err = f.ask(ctx, func(ctx context.Context) (err error) {
		made, err = f.remote.BatchV1().Jobs(c.Namespace).Create(ctx, c, metav1.CreateOptions{
			FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: dryRun,
		})
		return err
	})
	return made, err
}

// wrong says why the Job would not run there as it does here.
func (f *Forwarder) wrong(ctx context.Context, c *batchv1.Job, b bundle) (wrong []string, err error) {
	made, err := f.make(ctx, c, []string{metav1.DryRunAll})
	if err != nil {
		if apierrors.IsAlreadyExists(err) {
			err = apierrors.NewConflict(batchv1.Resource("jobs"), c.Name, err)
		}
		return nil, err
	}
	ctx, done := context.WithTimeout(ctx, requestTime)
	defer done()
	jobd, err := f.isJobd()
	if err != nil {
		return nil, err
	}
	w := handover.OfJob(c)
	w.Brings = b.names()
	there, err := handover.Look(ctx, f.remote, c.Namespace, f.Cluster, jobd, handover.Needs(w))
	if err != nil {
		return nil, err
	}
	for _, finding := range handover.Wrong(handover.Check(w, handover.ImagesOf(ctx, f.local.Discovery()), there)) {
		wrong = append(wrong, finding.String())
	}
	if slices.ContainsFunc(there.Lacks, func(n handover.Need) bool { return n.Kind == secret }) && !f.Secrets {
		wrong = append(wrong, "Secrets go there only if the forwarder has --secrets")
	}
	left, err := handover.Left(c, made)
	for _, path := range left {
		wrong = append(wrong, path+": "+f.Cluster+" does not know this field, or has switched it off")
	}
	return wrong, err
}

// isJobd reports whether the cluster is a jobd, which is asked once.
func (f *Forwarder) isJobd() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.jobd == nil {
		is, err := handover.IsJobd(f.remote.Discovery())
		if err != nil {
			return false, err
		}
		f.jobd = &is
	}
	return *f.jobd, nil
}
