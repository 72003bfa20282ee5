package reach

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/runtime"
)

// Exec serves .../pods/NAME/exec: a connection that carries the streams of a process, by WebSocket or SPDY.
type Exec struct{ *Pods }

var _ rest.Connecter = Exec{}

func (Exec) New() apiruntime.Object { return &corev1.PodExecOptions{} }

func (Exec) NewConnectOptions() (apiruntime.Object, bool, string) {
	return &corev1.PodExecOptions{}, false, ""
}

func (e Exec) Connect(ctx context.Context, name string, options apiruntime.Object, responder rest.Responder) (http.Handler, error) {
	if err := e.mayConnect(ctx); err != nil {
		return nil, err
	}
	o := options.(*corev1.PodExecOptions)
	wanted := streamOptions{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, TTY: o.TTY}
	pod, container, err := e.container(ctx, name, o.Container)
	if err != nil {
		return nil, err
	}
	if len(o.Command) == 0 {
		return nil, apierrors.NewBadRequest("you must specify at least one command for the container")
	}
	if err := checkStreams(wanted); err != nil {
		return nil, err
	}
	return session(responder, func(w http.ResponseWriter, r *http.Request, v *visit) {
		serveStreams(w, r, v, wanted, func(ctx context.Context, s *streams, sizes <-chan runtime.TerminalSize) *metav1.Status {
			request := runtime.ExecRequest{Args: o.Command, TTY: o.TTY, Stdin: s.stdin, Stdout: s.stdout,
				Stderr: s.stderr, Left: v.left}
			if o.TTY {
				request.Resize = sizes
			}
			return execStatus(e.containers.Exec(ctx, pod, container, request))
		})
	}), nil
}

// execStatus returns how the process ended in the form that clients expect.
func execStatus(code int, err error) *metav1.Status {
	if err != nil || code == 0 {
		return streamStatus(err)
	}
	return &metav1.Status{
		Status:  metav1.StatusFailure,
		Reason:  remotecommand.NonZeroExitCodeReason,
		Message: fmt.Sprintf("command terminated with non-zero exit code: command terminated with exit code %d", code),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{
			Type: remotecommand.ExitCodeCauseType, Message: strconv.Itoa(code),
		}}},
	}
}
