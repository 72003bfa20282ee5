package worker

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/runtime"
)

// TestPodsAreAskedAtTheirOwnAddress: whoever may write the status of a pod does not send the daemon's requests elsewhere, by a
// hook or by a probe, of a container that this daemon has started or of one that it has found.
func TestPodsAreAskedAtTheirOwnAddress(t *testing.T) {
	own, err := net.Listen("tcp4", "127.0.0.2:0") // stands for the address that the network has on record
	if err != nil {
		t.Skip(err)
	}
	_, port, _ := strings.Cut(own.Addr().String(), ":")
	theirs, err := net.Listen("tcp4", "127.0.0.1:"+port)
	if err != nil {
		t.Skip(err)
	}
	asked := make(chan string, 100)
	serve := func(l net.Listener, where string) {
		s := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- where + r.URL.Path })}
		go func() { _ = s.Serve(l) }()
		t.Cleanup(func() { _ = s.Close() })
	}
	serve(own, "the pod ")
	serve(theirs, "the host ")
	get := func(path string) *corev1.HTTPGetAction {
		return &corev1.HTTPGetAction{Path: path, Port: intstr.Parse(port), Scheme: corev1.URISchemeHTTP}
	}
	obj := newPod(corev1.RestartPolicyNever, "a")
	obj.Status.PodIP, obj.Status.PodIPs = "127.0.0.1", []corev1.PodIP{{IP: "127.0.0.1"}}
	c := &obj.Spec.Containers[0]
	c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: get("/hook")}}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get("/probe")}, PeriodSeconds: 1000}
	h := newHost(t, func(_ *host, c *Config) { c.Address = func(*corev1.Pod) string { return "127.0.0.2" } })
	defer h.close()
	expect := func(want string) {
		t.Helper()
		select {
		case got := <-asked:
			if got != want {
				t.Errorf("asked %s, want %s", got, want)
			}
		case <-time.After(time.Minute):
			t.Errorf("nobody was asked, want %s", want)
		}
	}
	h.workers.watchAgain(obj, pod.Attempt{Container: c, Running: true, Started: true}, runtime.Status{ID: "found"})
	expect("the pod /probe")
	h.workers.preStop(obj, duty.Action{Kind: duty.RunPreStop, Container: "a", Grace: time.Minute})
	expect("the pod /hook")
}
