// Package reach lets clients into pods: exec, attach and portforward, which are connections that are upgraded, and the proxies of
// pods and Services. It asks who may reach a pod, and leaves the rest to Containers. What it holds ends with its request.
package reach

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/runtime"
)

// Containers reaches into the containers of running pods.
type Containers interface {
	// Exec runs a command in a container of the pod to its end, or to that of ctx, and returns its exit code. Errors
	// have the classes of runtime.Executor.
	Exec(ctx context.Context, pod *corev1.Pod, container string, e runtime.ExecRequest) (exitCode int, err error)
	// Attach connects to the first process of a container, as runtime.Attacher does.
	Attach(ctx context.Context, pod *corev1.Pod, container string, a runtime.AttachRequest) error
	// Dial connects to a TCP port of the loopback interface in the network of the pod.
	Dial(ctx context.Context, pod *corev1.Pod, port uint16) (net.Conn, error)
	// DialAddress connects to a TCP port of one of the pod's addresses, from within its network.
	DialAddress(ctx context.Context, pod *corev1.Pod, at netip.AddrPort) (net.Conn, error)
}

// idleTime is after how long a connection without traffic is closed, as by a kubelet.
const idleTime = 4 * time.Hour

// Pods holds what exec, attach, portforward and proxy of pods share.
type Pods struct {
	pods       *registry.Store
	containers Containers
	authorizer authorizer.UnconditionalAuthorizer
	permit     func(context.Context, *corev1.Pod) error
}

// New makes what the subresources of pods share; permit refuses pods that the client of a request may not reach into.
func New(
	pods *registry.Store, containers Containers, a authorizer.UnconditionalAuthorizer,
	permit func(context.Context, *corev1.Pod) error,
) *Pods {
	return &Pods{pods: pods, containers: containers, authorizer: a, permit: permit}
}

func (*Pods) Destroy()                 {}
func (*Pods) ConnectMethods() []string { return []string{http.MethodGet, http.MethodPost} }

// mayConnect asks whether the client of a GET may also create the subresource. A WebSocket begins with a GET, and a role
// that only reads must not let anybody into a container (KEP-4006).
func (c *Pods) mayConnect(ctx context.Context) error {
	info, ok := request.RequestInfoFrom(ctx)
	if !ok || info.Verb != "get" {
		return nil
	}
	who, _ := request.UserFrom(ctx)
	a := authorizer.AttributesRecord{
		User: who, Verb: "create", Namespace: info.Namespace, APIGroup: info.APIGroup, APIVersion: info.APIVersion,
		Resource: info.Resource, Subresource: info.Subresource, Name: info.Name, ResourceRequest: true, Path: info.Path,
	}
	decision, reason, err := c.authorizer.Authorize(ctx, a)
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case decision != authorizer.DecisionAllow:
		return responsewriters.ForbiddenStatusError(a, reason)
	}
	return nil
}

// pod returns a pod that is bound to the node, and that the client may reach into.
func (c *Pods) pod(ctx context.Context, name string) (*corev1.Pod, error) {
	obj, err := c.pods.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	pod := obj.(*corev1.Pod)
	if err := c.permit(ctx, pod); err != nil {
		return nil, err
	}
	switch {
	case c.containers == nil:
		return nil, apierrors.NewServiceUnavailable("this server has no containers")
	case !podspec.Bound(pod):
		return nil, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	return pod, nil
}

// container returns a running container; an empty name means the only one.
func (c *Pods) container(ctx context.Context, podName, name string) (*corev1.Pod, string, error) {
	pod, err := c.pod(ctx, podName)
	if err != nil {
		return nil, "", err
	}
	if name, err = podspec.ContainerName(pod, name); err != nil {
		return nil, "", apierrors.NewBadRequest(err.Error())
	}
	if s := podspec.ContainerStatus(pod, name); s == nil || s.State.Running == nil {
		return nil, "", apierrors.NewBadRequest(fmt.Sprintf("container %q in pod %q is not running", name, pod.Name))
	}
	return pod, name, nil
}

// session serves a connection that a client has asked to upgrade. Its context ends with the server.
func session(responder rest.Responder, serve func(w http.ResponseWriter, r *http.Request, v *visit)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpstream.IsUpgradeRequest(r) {
			responder.Error(apierrors.NewBadRequest("Upgrade request required")) // an API server's words
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		v := newVisit()
		go conns.WatchHangUp(ctx, v.leave)
		serve(visitWriter{w, v}, r.WithContext(ctx), v)
	})
}
