package server

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/usage"
)

// Past tells what the node has used.
type Past interface {
	Used() usage.Past
}

// nodeUsage serves GET .../nodes/NAME/usage: a usage.Past, as JSON.
type nodeUsage struct {
	rawAnswer
	past Past
}

var _ rest.Getter = nodeUsage{}

func (n nodeUsage) Get(ctx context.Context, name string, _ *metav1.GetOptions) (runtime.Object, error) {
	obj, err := n.objects.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if n.past == nil {
		return nil, apierrors.NewServiceUnavailable("this server measures nothing")
	}
	text, err := json.Marshal(n.past.Used())
	if err != nil {
		return nil, err
	}
	return &rawJSON{of: obj.(*corev1.Node), json: append(text, '\n')}, nil
}
