package submit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/jobd/jobd/api/history"
)

// autoMemory as an amount of memory is what the history of former runs says.
const autoMemory = "auto"

// runsPages bounds how many pages of the history are asked for: one may be empty, though a later one is not.
const runsPages = 20

// SizeMemory sets the memory of a Job that has --memory auto by what its former runs have used. It returns a sentence that says so,
// which is empty without that flag.
func (m *Manifests) SizeMemory(ctx context.Context, client *Client, namespace string) (string, error) {
	if !m.AutoMemory {
		return "", nil
	}
	u := m.Job.DeepCopy()
	u.SetNamespace(namespace)
	q := history.RunsOf(u)
	name := q.Name
	if q.GenerateName != "" {
		name = q.GenerateName + "*"
	}
	runs, err := runsOf(ctx, client, q)
	if err != nil {
		return "", fmt.Errorf("--memory auto: %w", err)
	}
	memory, peak, n := history.SuggestMemory(runs)
	if n == 0 {
		return "", fmt.Errorf("--memory auto: no run of %s in the namespace %s that completed is in the history: give an amount for the first one, such as --memory 4Gi",
			name, namespace)
	}
	amount := resource.NewQuantity(memory, resource.BinarySI).String()
	if err := m.setMemory(amount); err != nil {
		return "", err
	}
	of := fmt.Sprintf("the last %d runs of %s used at most %s, but for one in twenty", n, name, mebibytes(peak))
	switch {
	case n == 1:
		of = fmt.Sprintf("the one run of %s used %s", name, mebibytes(peak))
	case n < 20:
		of = fmt.Sprintf("the last %d runs of %s used at most %s", n, name, mebibytes(peak))
	}
	return fmt.Sprintf("memory: %s, since %s", amount, of), nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1fMi", float64(n)/(1<<20)) }

// runsOf returns the former runs that a query asks for.
func runsOf(ctx context.Context, client *Client, q history.Query) (runs []history.Job, err error) {
	for range runsPages {
		request := client.Kubernetes.BatchV1().RESTClient().Get().AbsPath(history.Path(q.Namespace))
		for name, values := range q.Parameters() {
			request.Param(name, values[0])
		}
		answer := request.Do(ctx)
		if err := answer.Error(); apierrors.IsNotFound(err) {
			return nil, errors.New("the server keeps no history of Jobs: it is not jobd, or an older one")
		} else if err != nil {
			if strings.Contains(err.Error(), "there is no parameter") {
				return nil, errors.New("the server's jobd is an older one, which cannot find runs whose names were generated: give the Job a --name")
			}
			return nil, err
		}
		raw, err := answer.Raw()
		if err != nil {
			return nil, err
		}
		page := &history.List{}
		if err := json.Unmarshal(raw, page); err != nil {
			return nil, fmt.Errorf("the server's answer: %w", err)
		}
		runs = append(runs, page.Items...)
		if q.Continue = page.Metadata.Continue; q.Continue == "" || len(runs) >= q.Limit {
			break
		}
	}
	return runs, nil
}

// setMemory sets the memory that the only container requests and may use.
func (m *Manifests) setMemory(amount string) error {
	path := []string{"spec", "template", "spec", "containers"}
	containers, _, err := unstructured.NestedSlice(m.Job.Object, path...)
	if err != nil {
		return err
	}
	for _, c := range containers {
		for _, list := range []string{"requests", "limits"} {
			if err := unstructured.SetNestedField(c.(map[string]any), amount, "resources", list, "memory"); err != nil {
				return err
			}
		}
	}
	return unstructured.SetNestedSlice(m.Job.Object, containers, path...)
}
