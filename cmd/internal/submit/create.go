package submit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/restmapper"

	"github.com/jobd/jobd/api/absent"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/internal/handover"
)

// fieldManager names the commands among those who write objects.
const fieldManager = "jobctl"

// manifestsOf returns a Job that flags describe as if it came from a file.
func manifestsOf(j *batchv1.Job) (*Manifests, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(j)
	if err != nil {
		return nil, err
	}
	delete(object, "status")
	u := &unstructured.Unstructured{Object: object}
	unstructured.RemoveNestedField(object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(object, "spec", "template", "metadata", "creationTimestamp")
	return &Manifests{Job: u}, nil
}

// Create applies the objects beside the Job, and then creates the Job. With dryRun the server checks everything and
// stores nothing.
func (m *Manifests) Create(ctx context.Context, client *Client, namespace string, dryRun bool) (*batchv1.Job, error) {
	created, err := m.create(ctx, client, namespace, dryRun)
	if err == nil {
		return created, nil
	}
	return nil, m.withHelp(err)
}

// withHelp returns why the objects could not be created, and what may help: the field that may be meant, or how to make the namespace.
func (m *Manifests) withHelp(err error) error {
	var sent [][]byte
	for _, u := range append([]*unstructured.Unstructured{m.Job}, m.Others...) {
		if raw, failed := json.Marshal(u.Object); failed == nil {
			sent = append(sent, raw)
		}
	}
	if help := cmp.Or(Mistyped(err.Error(), sent...), NamespaceMissing(err.Error())); help != "" {
		err = fmt.Errorf("%w\n%s", err, help)
	}
	return err
}

// prepare applies the objects beside the Job or the JobSet, and returns it as it is to be created.
func (m *Manifests) prepare(
	ctx context.Context, client *Client, namespace string, dryRun bool,
) (u *unstructured.Unstructured, options metav1.CreateOptions, err error) {
	options = metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict}
	if dryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	if len(m.Others) > 0 {
		if err := m.apply(ctx, client, namespace, options.DryRun); err != nil {
			return nil, options, err
		}
	}
	u = m.Job.DeepCopy()
	if u.GetNamespace() == "" {
		u.SetNamespace(namespace)
	}
	return u, options, nil
}

func (m *Manifests) create(ctx context.Context, client *Client, namespace string, dryRun bool) (*batchv1.Job, error) {
	u, options, err := m.prepare(ctx, client, namespace, dryRun)
	if err != nil {
		return nil, err
	}
	if u.GetName() == "" && u.GetGenerateName() == "" {
		return nil, fmt.Errorf("the Job has no name: give it one with --name, or metadata.generateName")
	}
	if m.Values != nil {
		if ours, err := handover.IsJobd(client.Kubernetes.Discovery()); err != nil {
			return nil, err
		} else if !ours {
			return nil, errors.New("--param and --each need jobd: a cluster gives all indexes the same variables")
		}
		if err := unstructured.SetNestedField(u.Object, true, "spec", "suspend"); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	// Sent as it was written: a typed Job would lose the fields that this program does not know.
	created := &batchv1.Job{}
	post := func() error {
		return client.Kubernetes.BatchV1().RESTClient().Post().Namespace(u.GetNamespace()).Resource("jobs").
			VersionedParams(&options, metav1.ParameterCodec).SetHeader("Content-Type", runtime.ContentTypeJSON).
			Body(raw).Do(ctx).Into(created)
	}
	err = post()
	if apierrors.IsAlreadyExists(err) && m.Replace && !dryRun {
		if err = remove(ctx, client, u.GetNamespace(), u.GetName()); err == nil {
			err = post()
		}
	}
	if apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("job %s exists already: choose another --name, replace it (--replace), or follow it with: jobctl follow jobs/%[1]s%s%s",
			u.GetName(), why.InNamespace(u.GetNamespace()), client.Words)
	}
	if err != nil || m.Values == nil || dryRun {
		return created, err
	}
	return m.createValues(ctx, client, created)
}

// remove deletes a Job, and waits until it and its pods are gone.
func remove(ctx context.Context, client *Client, namespace, name string) error {
	jobs := client.Kubernetes.BatchV1().Jobs(namespace)
	old, err := jobs.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	foreground := metav1.DeletePropagationForeground
	err = jobs.Delete(ctx, name, metav1.DeleteOptions{
		PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &old.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watched := jobsNamed(client.Kubernetes, namespace, name)
	watched.connected = func(error) {}
	watched.see = func(j *batchv1.Job, deleted bool) {
		if deleted || j.UID != old.UID {
			stop()
		}
	}
	if err := watched.run(watching, "", old); ctx.Err() != nil || watching.Err() == nil {
		return err
	}
	return nil
}

// CreateNamespaces creates the namespaces that the objects are in, as a server needs that had nothing before.
func (m *Manifests) CreateNamespaces(ctx context.Context, client *Client, namespace string) error {
	names := []string{namespace}
	for _, u := range append(slices.Clone(m.Others), m.Job) {
		if u.GetNamespace() != "" {
			names = append(names, u.GetNamespace())
		}
	}
	for _, name := range names {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := client.Kubernetes.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{FieldManager: fieldManager})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// apply applies the objects beside the Job, in the order of the files.
func (m *Manifests) apply(ctx context.Context, client *Client, namespace string, dry []string) error {
	groups, err := restmapper.GetAPIGroupResources(client.Kubernetes.Discovery())
	if err != nil {
		return fmt.Errorf("find out which kinds the server has: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for _, u := range m.Others {
		kind := u.GroupVersionKind()
		what := fmt.Sprintf("%s %s", kind.Kind, nameOf(u))
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if meta.IsNoMatchError(err) {
			if ours, failed := handover.IsJobd(client.Kubernetes.Discovery()); failed == nil && ours {
				if moved, ok := absent.Moved(kind); ok {
					err = errors.New(moved)
				} else {
					err = errors.New(absent.Refusal(kind.GroupKind()))
				}
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		api := client.Dynamic.Resource(mapping.Resource)
		into, in := u.DeepCopy(), namespace
		if mapping.Scope.Name() == meta.RESTScopeNameRoot {
			in = ""
		} else if u.GetNamespace() != "" {
			in = u.GetNamespace()
		} else {
			into.SetNamespace(in)
		}
		if u.GetName() == "" {
			_, err = api.Namespace(in).Create(ctx, into, metav1.CreateOptions{
				FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: dry,
			})
		} else {
			var raw []byte
			if raw, err = json.Marshal(into.Object); err == nil {
				force := true
				_, err = api.Namespace(in).Patch(ctx, u.GetName(), types.ApplyPatchType, raw, metav1.PatchOptions{
					FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: dry, Force: &force,
				})
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	return nil
}
