// Package resourcemetrics serves metrics.k8s.io: what pods and the node use now, measured when somebody asks.
package resourcemetrics

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/usage"
	"github.com/jobd/jobd/store"
)

// Meter measures what the node and the containers on it use.
type Meter interface {
	// Measure returns what is used now. It may take a second.
	Measure(ctx context.Context) (*usage.Measurement, error)
}

// metered is what the two resources of metrics.k8s.io have in common: they are made when they are read, and there is
// nothing to be watched or written.
type metered struct {
	meter Meter // nil: nothing is measured
	store *store.Store
}

// New makes both.
func New(meter Meter, s *store.Store) (pods, nodes rest.Storage) {
	m := metered{meter, s}
	return podMetrics{m}, nodeMetrics{m}
}

func (metered) Destroy() {}

func (m metered) measure(ctx context.Context) (*usage.Measurement, error) {
	if m.meter == nil {
		return nil, apierrors.NewServiceUnavailable("this server measures nothing")
	}
	measured, err := m.meter.Measure(ctx)
	if err != nil {
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("the usage of the node cannot be measured: %v", err))
	}
	return measured, nil
}

// labelsOf returns the labels of a stored object, and whether there is one with that UID; an empty UID is any.
func (m metered) labelsOf(s *store.Snapshot, key, uid string) (labels.Set, bool, error) {
	o, ok := s.Get(key)
	if !ok || uid != "" && o.UID != uid {
		return nil, false, nil
	}
	part := &corev1.Pod{} // what is read is the same in every kind
	if err := scheme.DecodePart(o.Value, labelsOnly, part); err != nil {
		return nil, false, err
	}
	return part.Labels, true, nil
}

var labelsOnly = scheme.FieldsOf[corev1.Pod]("metadata.labels")

// podMetrics serves what pods use.
type podMetrics struct{ metered }

var (
	_ rest.Getter               = podMetrics{}
	_ rest.Lister               = podMetrics{}
	_ rest.Scoper               = podMetrics{}
	_ rest.SingularNameProvider = podMetrics{}
)

func (podMetrics) New() runtime.Object     { return &v1beta1.PodMetrics{} }
func (podMetrics) NewList() runtime.Object { return &v1beta1.PodMetricsList{} }
func (podMetrics) NamespaceScoped() bool   { return true }
func (podMetrics) GetSingularName() string { return "pod" }

func (p podMetrics) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	list, err := p.list(ctx, labels.Everything(), fields.OneTermEqualSelector("metadata.name", name))
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, apierrors.NewNotFound(v1beta1.Resource("podmetrics"), name)
	}
	return &list.Items[0], nil
}

func (p podMetrics) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	return p.list(ctx, labelSelector(options), fieldSelector(options))
}

func (p podMetrics) list(ctx context.Context, byLabel labels.Selector, byField fields.Selector) (*v1beta1.PodMetricsList, error) {
	measured, err := p.measure(ctx)
	if err != nil {
		return nil, err
	}
	namespace := request.NamespaceValue(ctx)
	list := &v1beta1.PodMetricsList{Items: []v1beta1.PodMetrics{}}
	err = p.store.View(func(s *store.Snapshot) error {
		for _, pod := range measured.Pods {
			if namespace != "" && pod.Namespace != namespace ||
				!byField.Matches(fields.Set{"metadata.namespace": pod.Namespace, "metadata.name": pod.Name}) {
				continue
			}
			set, ok, err := p.labelsOf(s, store.Key("pods", pod.Namespace, pod.Name), string(pod.UID))
			if err != nil {
				return err
			}
			if ok && byLabel.Matches(set) {
				list.Items = append(list.Items, measured.PodMetrics(pod, set))
			}
		}
		return nil
	})
	return list, err
}

func (podMetrics) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	t := &metav1.Table{}
	add := func(m *v1beta1.PodMetrics) {
		sum := corev1.ResourceList{}
		for _, c := range m.Containers {
			for name, amount := range c.Usage {
				all := sum[name]
				all.Add(amount)
				sum[name] = all
			}
		}
		addUsage(t, m, sum, m.Window)
	}
	switch obj := obj.(type) {
	case *v1beta1.PodMetrics:
		add(obj)
	case *v1beta1.PodMetricsList:
		for i := range obj.Items {
			add(&obj.Items[i])
		}
	}
	return withUsageColumns(t, options), nil
}

// nodeMetrics serves what the node uses.
type nodeMetrics struct{ metered }

var (
	_ rest.Getter               = nodeMetrics{}
	_ rest.Lister               = nodeMetrics{}
	_ rest.Scoper               = nodeMetrics{}
	_ rest.SingularNameProvider = nodeMetrics{}
)

func (nodeMetrics) New() runtime.Object     { return &v1beta1.NodeMetrics{} }
func (nodeMetrics) NewList() runtime.Object { return &v1beta1.NodeMetricsList{} }
func (nodeMetrics) NamespaceScoped() bool   { return false }
func (nodeMetrics) GetSingularName() string { return "node" }

func (n nodeMetrics) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	list, err := n.list(ctx, labels.Everything(), fields.OneTermEqualSelector("metadata.name", name))
	if err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return nil, apierrors.NewNotFound(v1beta1.Resource("nodemetrics"), name)
	}
	return &list.Items[0], nil
}

func (n nodeMetrics) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	return n.list(ctx, labelSelector(options), fieldSelector(options))
}

func (n nodeMetrics) list(ctx context.Context, byLabel labels.Selector, byField fields.Selector) (*v1beta1.NodeMetricsList, error) {
	measured, err := n.measure(ctx)
	if err != nil {
		return nil, err
	}
	list := &v1beta1.NodeMetricsList{Items: []v1beta1.NodeMetrics{}}
	err = n.store.View(func(s *store.Snapshot) error {
		set, ok, err := n.labelsOf(s, store.Key("nodes", "", measured.Node), "")
		if err == nil && ok && byLabel.Matches(set) && byField.Matches(fields.Set{"metadata.name": measured.Node}) {
			list.Items = append(list.Items, measured.NodeMetrics(set))
		}
		return err
	})
	return list, err
}

func (nodeMetrics) ConvertToTable(_ context.Context, obj, options runtime.Object) (*metav1.Table, error) {
	t := &metav1.Table{}
	switch obj := obj.(type) {
	case *v1beta1.NodeMetrics:
		addUsage(t, obj, obj.Usage, obj.Window)
	case *v1beta1.NodeMetricsList:
		for i := range obj.Items {
			addUsage(t, &obj.Items[i], obj.Items[i].Usage, obj.Items[i].Window)
		}
	}
	return withUsageColumns(t, options), nil
}

func labelSelector(o *metainternalversion.ListOptions) labels.Selector {
	if o == nil || o.LabelSelector == nil {
		return labels.Everything()
	}
	return o.LabelSelector
}

func fieldSelector(o *metainternalversion.ListOptions) fields.Selector {
	if o == nil || o.FieldSelector == nil {
		return fields.Everything()
	}
	return o.FieldSelector
}

func addUsage(t *metav1.Table, obj runtime.Object, used corev1.ResourceList, window metav1.Duration) {
	t.Rows = append(t.Rows, metav1.TableRow{
		Cells: []any{
			obj.(metav1.Object).GetName(), fmt.Sprintf("%dm", used.Cpu().MilliValue()), fmt.Sprintf("%dMi", used.Memory().Value()>>20),
			window.Round(time.Second).String(),
		},
		Object: runtime.RawExtension{Object: obj},
	})
}

func withUsageColumns(t *metav1.Table, options runtime.Object) *metav1.Table {
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		t.ColumnDefinitions = []metav1.TableColumnDefinition{
			{Name: "Name", Type: "string", Format: "name", Description: metav1.ObjectMeta{}.SwaggerDoc()["name"]},
			{Name: "CPU", Type: "string", Description: "Processors in use, in thousandths of one."},
			{Name: "Memory", Type: "string", Description: "The working set of the memory."},
			{Name: "Window", Type: "string", Description: "The time over which the use of processors was measured."},
		}
	}
	return t
}
