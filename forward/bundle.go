package forward

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/internal/handover"
)

// bundle are the copies of ConfigMaps and Secrets that go with a Job, by the objects here.
type bundle map[handover.Object]metav1.Object

// longestName is how long the name of an object may be.
const longestName = 253

// hashed returns the name of a copy. Its end tells what is in it, so that another Job, or the same one later, may have other contents.
func hashed(name string, l *batchv1.Job, contents ...any) string {
	sum := sha256.Sum256([]byte(string(l.UID) + text(contents)))
	end := "-" + hex.EncodeToString(sum[:5])
	return strings.TrimRight(name[:min(len(name), longestName-len(end))], "-.") + end
}

// pack reads what a Job needs here and takes with it. What is not here has to be there.
func (f *Forwarder) pack(ctx context.Context, l *batchv1.Job, namespace string) (bundle, error) {
	b := bundle{}
	for kind, names := range copied(l) {
		if kind == secret && !f.Secrets {
			continue
		}
		for name := range names {
			o := handover.Object{Kind: kind, Name: name}
			made, err := f.copyOf(ctx, l, o, namespace)
			switch {
			case apierrors.IsNotFound(err):
			case err != nil:
				return nil, err
			default:
				b[o] = made
			}
		}
	}
	return b, nil
}

// copied returns what a Job names of the kinds of which copies go with it, if they may.
func copied(l *batchv1.Job) map[string]sets.Set[string] {
	all := map[string]sets.Set[string]{}
	handover.EachName(l.Spec.Template.Spec.DeepCopy(), nil, func(n handover.Named) {
		if n.Kind != configMap && n.Kind != secret {
			return
		}
		if all[n.Kind] == nil {
			all[n.Kind] = sets.New[string]()
		}
		all[n.Kind].Insert(*n.Name)
	})
	return all
}

// copyOf returns the copy of an object here.
func (f *Forwarder) copyOf(ctx context.Context, l *batchv1.Job, o handover.Object, namespace string) (metav1.Object, error) {
	ctx, done := context.WithTimeout(ctx, requestTime)
	defer done()
	meta := metav1.ObjectMeta{Namespace: namespace, Annotations: map[string]string{
		clusters.NamespaceAnnotation: l.Namespace, clusters.JobAnnotation: l.Name,
	}}
	f.origin.mark(&meta.Labels, l)
	if o.Kind == configMap {
		c, err := f.local.CoreV1().ConfigMaps(l.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		meta.Name = hashed(o.Name, l, contents(c)...)
		return &corev1.ConfigMap{ObjectMeta: meta, Data: c.Data, BinaryData: c.BinaryData, Immutable: ptr.To(true)}, nil
	}
	s, err := f.local.CoreV1().Secrets(l.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	meta.Name = hashed(o.Name, l, contents(s)...)
	return &corev1.Secret{ObjectMeta: meta, Type: s.Type, Data: s.Data, Immutable: ptr.To(true)}, nil
}

// names returns the objects here as handover.Work.Brings has them.
func (b bundle) names() (all []string) {
	for o := range b {
		all = append(all, o.Kind+"/"+o.Name)
	}
	return all
}

// rename lets a Job that is made there refer to the copies.
func (b bundle) rename(c *batchv1.Job) {
	handover.EachName(&c.Spec.Template.Spec, nil, func(n handover.Named) {
		if to := b[handover.Object{Kind: n.Kind, Name: *n.Name}]; to != nil {
			*n.Name = to.GetName()
		}
	})
}

// send makes the copies there. They have no owner before the Job is made, and are swept if it never is.
func (f *Forwarder) send(ctx context.Context, b bundle) error {
	for o, c := range b {
		err := f.ask(ctx, func(ctx context.Context) error { return f.copiesOf(o.Kind, c.GetNamespace()).create(ctx, c) })
		if apierrors.IsAlreadyExists(err) {
			err = f.isOurs(ctx, o.Kind, c)
		}
		if err != nil {
			return fmt.Errorf("copy of %s %s: %w", o.Kind, o.Name, err)
		}
	}
	return nil
}

// isOurs refuses what somebody else has put in the place of a copy. One of ours cannot be changed.
func (f *Forwarder) isOurs(ctx context.Context, kind string, c metav1.Object) error {
	return f.ask(ctx, func(ctx context.Context) error {
		is, err := f.copiesOf(kind, c.GetNamespace()).get(ctx, c.GetName())
		if err != nil {
			return err
		}
		for _, name := range []string{clusters.OriginLabel, clusters.OriginUIDLabel} {
			if is.GetLabels()[name] != c.GetLabels()[name] {
				return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, c.GetName(), errors.New("somebody else has the name there"))
			}
		}
		if !equality.Semantic.DeepEqual(contents(is), contents(c)) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, c.GetName(), errors.New("somebody has changed it there"))
		}
		return nil
	})
}

// own lets the copies that came with a Job go with it. Which ones those are their own labels say: what the Job there says of them anybody may
// have written who may change it, but not the objects that it would name.
func (f *Forwarder) own(ctx context.Context, l, r *batchv1.Job) error {
	owners := []metav1.OwnerReference{{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: r.Name, UID: r.UID}}
	for kind := range copied(l) {
		copies := f.copiesOf(kind, r.Namespace)
		err := f.ask(ctx, func(ctx context.Context) error {
			all, err := copies.list(ctx, clusters.OriginLabel+"="+string(f.origin.Jobd)+","+clusters.OriginUIDLabel+"="+string(l.UID))
			if kind == secret && !f.Secrets && handover.Refused(err) { // so none was sent, unless that was allowed before
				return nil
			}
			for _, o := range all {
				if len(o.GetOwnerReferences()) > 0 {
					continue
				}
				meta := map[string]any{"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "ownerReferences": owners}
				if err = copies.patch(ctx, o.GetName(), []byte(text(map[string]any{"metadata": meta}))); err != nil && !apierrors.IsNotFound(err) {
					return err
				}
				err = nil
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("owner of the copies of each %s: %w", kind, err)
		}
	}
	return nil
}
