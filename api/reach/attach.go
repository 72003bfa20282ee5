package reach

import (
	"context"
	"errors"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/runtime"
)

// Attach serves .../pods/NAME/attach: like exec, but with the first process of the container.
type Attach struct{ *Pods }

var _ rest.Connecter = Attach{}

func (Attach) New() apiruntime.Object { return &corev1.PodAttachOptions{} }

func (Attach) NewConnectOptions() (apiruntime.Object, bool, string) {
	return &corev1.PodAttachOptions{}, false, ""
}

func (a Attach) Connect(ctx context.Context, name string, options apiruntime.Object, responder rest.Responder) (http.Handler, error) {
	if err := a.mayConnect(ctx); err != nil {
		return nil, err
	}
	o := options.(*corev1.PodAttachOptions)
	wanted := streamOptions{Stdin: o.Stdin, Stdout: o.Stdout, Stderr: o.Stderr, TTY: o.TTY}
	pod, container, err := a.container(ctx, name, o.Container)
	if err != nil {
		return nil, err
	}
	if err := checkStreams(wanted); err != nil {
		return nil, err
	}
	return session(responder, func(w http.ResponseWriter, r *http.Request, v *visit) {
		serveStreams(w, r, v, wanted, func(ctx context.Context, s *streams, sizes <-chan runtime.TerminalSize) *metav1.Status {
			request := runtime.AttachRequest{Stdout: s.stdout, Stderr: s.stderr, Resize: sizes, Left: v.left}
			if s.stdin != nil {
				request.Stdin = clientWords{s.stdin, ctx}
			}
			return streamStatus(a.containers.Attach(ctx, pod, container, request))
		})
	}), nil
}

// clientWords reads what a client writes. If the server has ended the connection, the client may have had more to
// write, so that is not reported as the end of its input.
type clientWords struct {
	io.Reader
	ctx context.Context
}

func (w clientWords) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	switch {
	case err == nil:
	case errors.Is(context.Cause(w.ctx), conns.ErrStopping):
		err = conns.ErrStopping
	default:
		err = io.EOF // a client that closes the connection has nothing more to write either
	}
	return n, err
}
