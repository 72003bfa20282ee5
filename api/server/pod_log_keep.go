package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/registry/rest"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/podspec"
)

// POST .../pods/NAME/log?container=C&attempt=N&time=T&lines=K takes in lines of a container of a pod that shows one of a cluster: those that
// come after the last K lines, of the time T, that are there. The body is what that cluster answers with timestamps; it holds whole lines,
// but for the last line of all. The answer is where the log ends then, which a request without a body asks for. It is jobd's own.

var _ rest.Connecter = &podLog{}

func (*podLog) ConnectMethods() []string { return []string{http.MethodPost} }

func (*podLog) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

func (l *podLog) Connect(ctx context.Context, name string, _ runtime.Object, responder rest.Responder) (http.Handler, error) {
	obj, err := l.objects.Get(ctx, name, &metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if l.shown == nil {
		return nil, apierrors.NewServiceUnavailable("this server has no logs")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end, err := l.keep(w, r, obj.(*corev1.Pod))
		if err != nil {
			responder.Error(err)
			return
		}
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_ = json.NewEncoder(w).Encode(end) // a client that is gone need not know
	}), nil
}

func (l *podLog) keep(w http.ResponseWriter, r *http.Request, pod *corev1.Pod) (end clusters.LogEnd, err error) {
	container, attempt, after, err := keptWhere(r.URL.Query())
	if err != nil {
		return end, err
	}
	if container, err = podspec.ContainerName(pod, container); err != nil {
		return end, apierrors.NewBadRequest(err.Error())
	}
	lines, err := io.ReadAll(http.MaxBytesReader(w, r.Body, clusters.MostLog))
	if err != nil {
		return end, apierrors.NewBadRequest(err.Error())
	}
	return l.shown.Keep(pod, container, attempt, after, lines)
}

// keptWhere reads the parameters of a request.
func keptWhere(query url.Values) (container string, attempt int, after clusters.LogEnd, err error) {
	for name := range query {
		value := query.Get(name)
		switch name {
		case "container":
			container = value
		case "attempt":
			attempt, err = strconv.Atoi(value)
		case "lines":
			after.Lines, err = strconv.Atoi(value)
		case "time":
			after.Time, err = time.Parse(time.RFC3339Nano, value)
		default:
			err = fmt.Errorf("it is not known")
		}
		if err != nil {
			return "", 0, after, apierrors.NewBadRequest(fmt.Sprintf("parameter %q: %v", name, err))
		}
	}
	return container, attempt, after, nil
}
