package pod

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/jobd/jobd/runtime"
)

func answered(check Check, attempt int, ok, verdict bool) Observation {
	return Observation{What: Checked, Container: "a", Attempt: attempt, Check: check, OK: ok, Verdict: verdict, Message: "no"}
}

func TestChecks(t *testing.T) {
	probe := &corev1.Probe{}
	probed := func(c *corev1.Container) { c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = probe, probe, probe }
	for _, tc := range []struct {
		name           string
		change         func(*corev1.Container)
		seen           []Observation
		started, ready bool
		asked          []string
	}{
		{"without any, a container is ready when it runs", func(*corev1.Container) {}, nil, true, true, nil},
		{"with a readiness probe it is not", func(c *corev1.Container) { c.ReadinessProbe = probe }, nil, true, false, nil},
		{"with a startup probe it has not even started", func(c *corev1.Container) { c.StartupProbe = probe }, nil, false, false, nil},
		{"nor with a hook that is under way", func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}
		}, nil, false, false, nil},
		{"it has when the hook is done", func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{}}
		}, []Observation{answered(PostStart, 0, true, true)}, true, true, nil},
		{"a readiness probe counts only after the start", probed, []Observation{answered(Readiness, 0, true, true)}, false, false, nil},
		{"started and ready", probed, []Observation{answered(Startup, 0, true, true), answered(Readiness, 0, true, true)}, true, true, nil},
		{"not ready any more", probed, []Observation{answered(Startup, 0, true, true), answered(Readiness, 0, true, true), answered(Readiness, 0, false, true)}, true, false, nil},
		{"a failure short of the threshold changes nothing", probed, []Observation{answered(Startup, 0, true, true), answered(Liveness, 0, false, false)}, true, false, nil},
		{"it does not live", probed, []Observation{answered(Startup, 0, true, true), answered(Liveness, 0, false, true)}, true, false, []string{"terminated a/0"}},
		{"it does not start", probed, []Observation{answered(Startup, 0, false, true)}, false, false, []string{"terminated a/0"}},
		{"what is said of another attempt changes nothing", probed, []Observation{answered(Startup, 1, true, true), answered(Liveness, 1, false, true)}, false, false, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := newPod(corev1.RestartPolicyOnFailure, "a")
			pod.Spec.TerminationGracePeriodSeconds = seconds64(30)
			tc.change(&pod.Spec.Containers[0])
			l := newLife(t, pod)
			l.turn()
			l.turn(Observation{What: Started, Container: "a"})
			got := l.turn(tc.seen...)
			s := pod.Status.ContainerStatuses[0]
			if *s.Started != tc.started || s.Ready != tc.ready || !slices.Equal(got, tc.asked) {
				t.Errorf("started %t, ready %t, asked for %q", *s.Started, s.Ready, got)
			}
		})
	}
}

func TestUnhealthyContainerIsKilledAfterItsGraceAndStartedAgain(t *testing.T) {
	pod := newPod(corev1.RestartPolicyOnFailure, "a")
	pod.Spec.TerminationGracePeriodSeconds = seconds64(30)
	pod.Spec.Containers[0].LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: seconds64(3)}
	l := newLife(t, pod)
	l.turn()
	l.turn(Observation{What: Started, Container: "a"})
	l.want(l.turn(answered(Liveness, 0, false, true)), "terminated a/0")
	l.wakeIn(3 * time.Second)
	l.want(l.turn(answered(Liveness, 0, false, true)))
	l.wait(3 * time.Second)
	l.want(l.turn(), "killed a/0")
	l.want(l.turn(Observation{What: Exited, Container: "a", Status: runtime.Status{ExitCode: 137, FinishedAt: l.now}}), "Launch a/1")
	l.turn(Observation{What: Started, Container: "a", Attempt: 1})
	l.want(l.turn(answered(Liveness, 1, false, true)), "terminated a/1")
}

func TestTally(t *testing.T) {
	p := &corev1.Probe{SuccessThreshold: 2, FailureThreshold: 3}
	var counted tally
	var verdicts []bool
	for _, answer := range "ooo..o....o" {
		verdicts = append(verdicts, counted.fold(p, answer == 'o'))
	}
	if want := []bool{false, true, false, false, false, false, false, false, true, false, false}; !slices.Equal(verdicts, want) {
		t.Errorf("got %v", verdicts)
	}
}

// patient answers commands as a test wants.
type patient struct {
	*host
	mu    sync.Mutex
	ill   map[string]bool
	asked []string
}

func (p *patient) Exec(ctx context.Context, _ string, e runtime.ExecRequest) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, e.Args[0])
	if p.ill[e.Args[0]] {
		return 1, nil
	}
	return 0, nil
}

func TestMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &patient{ill: map[string]bool{"live": true, "ready": true}}
		h := newHost(t, func(h *host, c *Config) {
			p.host = h
			c.Runtime = p
		})
		defer h.close()
		exec := func(name string) corev1.ProbeHandler {
			return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{name}}}
		}
		pod := newPod(corev1.RestartPolicyNever, "a")
		pod.Annotations = map[string]string{"jobd.dev/simulate-duration": "20s"}
		c := &pod.Spec.Containers[0]
		c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: exec("hook").Exec}}
		c.StartupProbe = &corev1.Probe{ProbeHandler: exec("start"), InitialDelaySeconds: 2}
		c.LivenessProbe = &corev1.Probe{ProbeHandler: exec("live"), PeriodSeconds: 3, FailureThreshold: 3}
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: exec("ready"), PeriodSeconds: 5, FailureThreshold: 1}
		h.workers.Do(pod, []Action{{Kind: Launch, Container: "a"}})
		time.Sleep(30 * time.Second)
		synctest.Wait()

		var seen []string
		begin := time.Now().Add(-30 * time.Second)
		for _, batch := range h.batches {
			for _, o := range batch {
				if o.What == Checked {
					word := o.At.Sub(begin).String() + " " + string(o.Check)
					if o.OK {
						word += " ok"
					}
					if o.Verdict {
						word += "!"
					}
					seen = append(seen, word)
				}
			}
		}
		slices.Sort(seen)
		want := []string{"12s Readiness", "17s Readiness", "2s Liveness", "2s Readiness!", "2s Startup ok!", "5s Liveness", "7s Readiness", "8s Liveness!"}
		if !slices.Equal(seen, want) {
			t.Errorf("reported %q", seen)
		}
		if p.asked[0] != "hook" || p.asked[1] != "start" {
			t.Errorf("asked %q", p.asked)
		}
		if len(h.workers.monitors) != 0 {
			t.Error("one that has ended is still checked")
		}
	})
}

// deafPort is a port of 127.0.0.1 that nobody listens on, and nobody else can take while the test runs.
func deafPort(t *testing.T) int {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(socket) })
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	return bound.(*unix.SockaddrInet4).Port
}

func TestTargets(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/headers" {
			http.Error(w, strings.Join(slices.Concat(r.Header["X"], r.Header["Accept"], r.Header["User-Agent"]), " "), http.StatusTeapot)
		} else if r.URL.Path != "/ok" || r.Host != "name" {
			http.Error(w, "no: "+r.URL.Path+" of "+r.Host, http.StatusTeapot)
		}
	}))
	defer server.Close()
	host, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number := intstr.Parse(port)
	none := intstr.FromInt(deafPort(t))
	named := []corev1.HTTPHeader{{Name: "Host", Value: "name"}}
	several := []corev1.HTTPHeader{{Name: "X", Value: "a"}, {Name: "x", Value: "b"}, {Name: "accept", Value: "text/html"}}
	to := target{ip: host, container: &corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(number.IntValue())}}}}
	for _, tc := range []struct {
		name, want string
		probe      corev1.ProbeHandler
	}{
		{"a page", "", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ok", Port: number, HTTPHeaders: named}}},
		{"a port by its name", "", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ok", Port: intstr.FromString("web"), HTTPHeaders: named}}},
		{"a name that no port has", `no port "other"`, corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("other")}}},
		{"a bad answer", "statuscode: 418: no: /x of name", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/x", Port: number, HTTPHeaders: named}}},
		{"headers", "418: a b text/html jobd-probe", corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/headers", Port: number, HTTPHeaders: several}}},
		{"a port that is open", "", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: number}}},
		{"a port that is not", "refused", corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: none}}},
		{"no service", "", corev1.ProbeHandler{}},
	} {
		err := to.probe(t.Context(), tc.probe)
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	checks, service := health.NewServer(), grpc.NewServer()
	checks.SetServingStatus("ill", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	grpc_health_v1.RegisterHealthServer(service, checks)
	go service.Serve(l)
	defer service.Stop()
	ask := &corev1.GRPCAction{Port: int32(l.Addr().(*net.TCPAddr).Port)}
	if err := to.probe(t.Context(), corev1.ProbeHandler{GRPC: ask}); err != nil {
		t.Errorf("a gRPC service: %v", err)
	}
	ill := "ill"
	ask.Service = &ill
	if err := to.probe(t.Context(), corev1.ProbeHandler{GRPC: ask}); err == nil || !strings.Contains(err.Error(), "NOT_SERVING") {
		t.Errorf("a gRPC service that does not serve: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := to.probe(ctx, corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(none.IntValue())}}); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a gRPC service that is not there: %v", err)
	}
}

// A hook before the stop may take all of the grace: what the signal tells the container to do still has its time.
func TestTheSignalAfterAPreStopHookHasItsTime(t *testing.T) {
	p := newPod(corev1.RestartPolicyNever, "hook", "plain")
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 100}}}
	l := newLife(t, p)
	l.turn()
	l.turn(l.started("hook", 0), l.started("plain", 0))
	l.delete(10 * time.Second)
	l.want(l.turn(), "terminated hook/0", "terminated plain/0")
	l.wakeIn(10 * time.Second)
	l.wait(10 * time.Second)
	l.want(l.turn(), "killed plain/0")
	l.wakeIn(minimumGrace)
	l.wait(minimumGrace)
	l.want(l.turn(), "killed hook/0")

	// Who is not given any time gets none.
	l = newLife(t, p.DeepCopy())
	l.pod.Status, l.pod.DeletionTimestamp = corev1.PodStatus{Phase: corev1.PodPending}, nil
	l.turn()
	l.turn(l.started("hook", 0), l.started("plain", 0))
	l.delete(0)
	l.want(l.turn(), "killed hook/0", "killed plain/0")
}
