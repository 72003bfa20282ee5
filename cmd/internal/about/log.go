package about

import (
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/podspec"
)

const (
	// lastLines and lastBytes are how much is asked for of a log.
	lastLines = 30
	lastBytes = 8 << 10
)

// LastLines returns the end of what a pod has printed, of its container that has failed if there is one.
func LastLines(ctx context.Context, client kubernetes.Interface, namespace, name string) (string, error) {
	p, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	container := ""
	for c := range podspec.Statuses(p) {
		if end := c.State.Terminated; end != nil && podspec.HasFailed(&p.Spec, c.Name, end) {
			container = c.Name
		}
	}
	log, err := client.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{
		Container: container, TailLines: ptr.To[int64](lastLines), LimitBytes: ptr.To[int64](lastBytes),
	}).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer log.Close()
	text, err := io.ReadAll(log)
	return string(text), err
}
