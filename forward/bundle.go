package forward

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/internal/handover"
)

// The kinds of which copies go with a Job.
const (
	configMap = "ConfigMap"
	secret    = "Secret"
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
	var failed error
	handover.EachName(l.Spec.Template.Spec.DeepCopy(), nil, func(n handover.Named) {
		o := handover.Object{Kind: n.Kind, Name: *n.Name}
		if failed != nil || b[o] != nil || o.Kind != configMap && (o.Kind != secret || !f.Secrets) {
			return
		}
		made, err := f.copyOf(ctx, l, o, namespace)
		if apierrors.IsNotFound(err) {
			return
		}
		if failed = err; err == nil {
			b[o] = made
		}
	})
	return b, failed
}

// copyOf returns the copy of an object here.
func (f *Forwarder) copyOf(ctx context.Context, l *batchv1.Job, o handover.Object, namespace string) (metav1.Object, error) {
	ctx, done := context.WithTimeout(ctx, requestTime)
	defer done()
	meta := metav1.ObjectMeta{Namespace: namespace}
	mark(&meta.Labels, l, f.origin)
	if o.Kind == configMap {
		c, err := f.local.CoreV1().ConfigMaps(l.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		meta.Name = hashed(o.Name, l, c.Data, c.BinaryData)
		return &corev1.ConfigMap{ObjectMeta: meta, Data: c.Data, BinaryData: c.BinaryData, Immutable: ptr.To(true)}, nil
	}
	s, err := f.local.CoreV1().Secrets(l.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	meta.Name = hashed(o.Name, l, s.Type, s.Data)
	return &corev1.Secret{ObjectMeta: meta, Type: s.Type, Data: s.Data, Immutable: ptr.To(true)}, nil
}

// names returns the objects here as handover.Work.Brings has them.
func (b bundle) names() (all []string) {
	for o := range b {
		all = append(all, o.Kind+"/"+o.Name)
	}
	return all
}

// rename lets a Job that is made there refer to the copies, and remember them.
func (b bundle) rename(c *batchv1.Job) {
	handover.EachName(&c.Spec.Template.Spec, nil, func(n handover.Named) {
		if to := b[handover.Object{Kind: n.Kind, Name: *n.Name}]; to != nil {
			*n.Name = to.GetName()
		}
	})
	copies := []handover.Object{}
	for o, to := range b {
		copies = append(copies, handover.Object{Kind: o.Kind, Name: to.GetName()})
	}
	slices.SortFunc(copies, func(a, b handover.Object) int { return strings.Compare(a.Kind+a.Name, b.Kind+b.Name) })
	if len(copies) > 0 {
		c.Annotations[clusters.CopiedAnnotation] = text(copies)
	}
}

// send makes the copies there. They have no owner before the Job is made, and are swept if it never is.
func (f *Forwarder) send(ctx context.Context, b bundle) error {
	for o := range maps.Keys(b) {
		err := f.ask(ctx, func(ctx context.Context) (err error) {
			switch c := b[o].(type) {
			case *corev1.ConfigMap:
				_, err = f.remote.CoreV1().ConfigMaps(c.Namespace).Create(ctx, c, metav1.CreateOptions{FieldManager: fieldManager})
			case *corev1.Secret:
				_, err = f.remote.CoreV1().Secrets(c.Namespace).Create(ctx, c, metav1.CreateOptions{FieldManager: fieldManager})
			}
			return err
		})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("copy of %s %s: %w", o.Kind, o.Name, err)
		}
	}
	return nil
}

// own lets the copies that came with a Job go with it.
func (f *Forwarder) own(ctx context.Context, r *batchv1.Job) error {
	var copies []handover.Object
	if err := json.Unmarshal([]byte(r.Annotations[clusters.CopiedAnnotation]), &copies); err != nil {
		return nil // there are none, or somebody has removed the annotation: then they are swept once the Job is gone
	}
	patch := []byte(text(map[string]any{"metadata": map[string]any{"ownerReferences": []metav1.OwnerReference{
		{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: r.Name, UID: r.UID},
	}}}))
	for _, o := range copies {
		err := f.ask(ctx, func(ctx context.Context) (err error) {
			options := metav1.PatchOptions{FieldManager: fieldManager}
			if o.Kind == secret {
				_, err = f.remote.CoreV1().Secrets(r.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, options)
			} else {
				_, err = f.remote.CoreV1().ConfigMaps(r.Namespace).Patch(ctx, o.Name, types.MergePatchType, patch, options)
			}
			return err
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("owner of %s %s: %w", o.Kind, o.Name, err)
		}
	}
	return nil
}
