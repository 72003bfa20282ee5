package submit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/history"
)

// setAfter makes the Job or the JobSet wait for others, as the command line names them.
func (m *Manifests) setAfter(parts []string) error {
	text, err := batch.FormatAfter(parts)
	if err != nil {
		return fmt.Errorf("--after: %w", err)
	}
	annotations := m.Job.GetAnnotations()
	if was, ok := annotations[batch.AfterAnnotation]; ok && was != text {
		return fmt.Errorf("--after: the file says it too, by %s: %s", batch.AfterAnnotation, was)
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[batch.AfterAnnotation] = text
	m.Job.SetAnnotations(annotations)
	m.After = batch.After(annotations)
	return unstructured.SetNestedField(m.Job.Object, true, "spec", "suspend")
}

// Resolve looks up those Jobs and JobSets named by --after whose objects are gone. What a manifest names comes, or has come, with it; who
// names one on the command line means the last one. It returns what it has found out, in sentences; an error, if the Job could never start.
func (m *Manifests) Resolve(ctx context.Context, client *Client, namespace string) (told []string, err error) {
	if m.Job.GetNamespace() != "" {
		namespace = m.Job.GetNamespace()
	}
	var left []string
	for _, n := range m.After {
		var err error
		q := history.Query{Name: n.Name, Limit: 1}
		if n.Set {
			q = history.Query{JobSet: n.Name, Limit: 1}
			_, err = GetJobSet(ctx, client.Kubernetes, namespace, n.Name)
		} else {
			_, err = client.Kubernetes.BatchV1().Jobs(namespace).Get(ctx, n.Name, metav1.GetOptions{})
		}
		last := (*history.Job)(nil)
		if apierrors.IsNotFound(err) {
			last, err = lastOf(ctx, client, namespace, q)
		}
		if err != nil {
			return nil, fmt.Errorf("--after %s: %w", n.Ref(), err)
		}
		if last == nil {
			left = append(left, n.Ref()+":"+n.When)
			continue
		}
		ended := fmt.Sprintf("%s (%s), and is gone", last.Ended.Format(time.DateTime), strings.ToLower(last.Result))
		if !n.Met(batchv1.JobConditionType(last.Result)) {
			return nil, fmt.Errorf("--after %s: it ended at %s, so this %s would wait for ever for %s", n.Ref(), ended, m.Job.GetKind(), n.Words())
		}
		told = append(told, fmt.Sprintf("%s ended at %s: it is not waited for", n.Ref(), ended))
	}
	if len(left) == len(m.After) {
		return told, nil
	}
	annotations := m.Job.GetAnnotations()
	if len(left) > 0 {
		annotations[batch.AfterAnnotation], err = batch.FormatAfter(left)
	} else {
		delete(annotations, batch.AfterAnnotation)
		unstructured.RemoveNestedField(m.Job.Object, "spec", "suspend")
	}
	m.Job.SetAnnotations(annotations)
	m.After = slices.Clone(batch.After(annotations))
	return told, err
}

// lastOf returns the last end that the history has and that is asked for; nil if there is none, or no history, or the client may not read it.
func lastOf(ctx context.Context, client *Client, namespace string, q history.Query) (*history.Job, error) {
	request := client.Kubernetes.BatchV1().RESTClient().Get().AbsPath(history.Path(namespace))
	for parameter, values := range q.Parameters() {
		request = request.Param(parameter, values[0])
	}
	raw, err := request.Do(ctx).Raw()
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := history.List{}
	if err := json.Unmarshal(raw, &list); err != nil || len(list.Items) == 0 {
		return nil, err
	}
	return &list.Items[0], nil
}
