package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/runtime/simulated"
)

// fakeNode is a machine of a cluster that runs nothing: its kubelet says of pods what the annotations of jobd's simulation say, and keeps
// what they would have printed.
type fakeNode struct {
	t       *testing.T
	cluster *controlPlane

	mu    sync.Mutex
	known map[types.UID]*fakePod
}

// fakePod is one of its pods.
type fakePod struct {
	name, job string
	began     time.Time
	ended     chan struct{}
}

const fakeNodeName = "fake"

// startFakeNode gives a cluster a scheduler, and a machine to which it may bind pods.
func (c *controlPlane) startFakeNode() *fakeNode {
	c.t.Helper()
	c.run("kube-scheduler", "--kubeconfig", c.kubeconfig, "--leader-elect=false", "--secure-port", "0")
	n := &fakeNode{t: c.t, cluster: c, known: map[types.UID]*fakePod{}}
	ctx, cancel := context.WithCancel(c.t.Context())
	c.t.Cleanup(cancel)
	port := n.serve()
	n.register(ctx, port)
	all := informers.NewSharedInformerFactoryWithOptions(c.Clientset, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = "spec.nodeName=" + fakeNodeName
	}))
	if _, err := all.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { n.take(ctx, obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { n.take(ctx, obj.(*corev1.Pod)) },
	}); err != nil {
		c.t.Fatal(err)
	}
	all.Start(ctx.Done())
	return n
}

// register makes the node, and has it live on.
func (n *fakeNode) register(ctx context.Context, port int32) {
	n.t.Helper()
	nodes, leases := n.cluster.CoreV1().Nodes(), n.cluster.CoordinationV1().Leases("kube-node-lease")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fakeNodeName}}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: status, Reason: "Fake", LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		})
	}
	node.Status.Capacity = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("10000"),
	}
	node.Status.Allocatable = node.Status.Capacity
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: fakeNodeName}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To(fakeNodeName), ptr.To[int32](40)
	lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
	made, err := nodes.Create(ctx, node, metav1.CreateOptions{})
	if err == nil {
		made.Status = node.Status
		if _, err = nodes.UpdateStatus(ctx, made, metav1.UpdateOptions{}); apierrors.IsConflict(err) { // it is tainted meanwhile
			if made, err = nodes.Get(ctx, fakeNodeName, metav1.GetOptions{}); err == nil {
				made.Status = node.Status
				_, err = nodes.UpdateStatus(ctx, made, metav1.UpdateOptions{})
			}
		}
	}
	if err == nil {
		lease, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	if err != nil {
		n.t.Fatal(err)
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Second):
			}
			patch := fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().UTC().Format(metav1.RFC3339Micro))
			_, _ = leases.Patch(ctx, lease.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		}
	}()
}

// take takes in a pod as it now is.
func (n *fakeNode) take(ctx context.Context, p *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.DeletionTimestamp != nil {
		go func() {
			_ = n.cluster.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
				GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(p.UID)),
			})
		}()
		return
	}
	if n.known[p.UID] != nil {
		return
	}
	pod := &fakePod{name: p.Namespace + "/" + p.Name, job: p.Labels[batchv1.JobNameLabel], began: time.Now(), ended: make(chan struct{})}
	n.known[p.UID] = pod
	go n.live(ctx, p.DeepCopy(), pod)
}

// live runs a pod from its start to its end.
func (n *fakeNode) live(ctx context.Context, p *corev1.Pod, pod *fakePod) {
	duration, _ := time.ParseDuration(p.Annotations[simulated.Duration])
	code, _ := strconv.Atoi(p.Annotations[simulated.ExitCode])
	status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: ptr.To(metav1.NewTime(pod.began)), HostIP: "127.0.0.1"}
	for _, c := range p.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "fake://" + string(p.UID), Ready: true, Started: ptr.To(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(pod.began)}},
		})
	}
	conditions := func(ready corev1.ConditionStatus) {
		status.Conditions = nil
		for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
			c := corev1.PodCondition{Type: kind, Status: ready, LastTransitionTime: metav1.Now()}
			if kind == corev1.PodInitialized || kind == corev1.PodScheduled {
				c.Status = corev1.ConditionTrue
			}
			status.Conditions = append(status.Conditions, c)
		}
	}
	conditions(corev1.ConditionTrue)
	n.say(ctx, p, &status)
	select {
	case <-ctx.Done():
		return
	case <-time.After(duration):
	}
	close(pod.ended)
	reason := "Completed"
	if status.Phase = corev1.PodSucceeded; code != 0 {
		status.Phase, reason = corev1.PodFailed, "Error"
	}
	for i := range status.ContainerStatuses {
		c := &status.ContainerStatuses[i]
		c.Ready, c.Started = false, ptr.To(false)
		c.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: int32(code), Reason: reason, StartedAt: metav1.NewTime(pod.began), FinishedAt: metav1.Now(), ContainerID: c.ContainerID,
		}}
	}
	conditions(corev1.ConditionFalse)
	n.say(ctx, p, &status)
}

// say writes the status of a pod, which may have gone.
func (n *fakeNode) say(ctx context.Context, p *corev1.Pod, status *corev1.PodStatus) {
	for ctx.Err() == nil {
		now, err := n.cluster.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if err == nil && now.UID == p.UID {
			now.Status = *status.DeepCopy()
			now.Status.QOSClass = p.Status.QOSClass
			_, err = n.cluster.CoreV1().Pods(p.Namespace).UpdateStatus(ctx, now, metav1.UpdateOptions{})
		}
		if err == nil || apierrors.IsNotFound(err) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// runs returns how many pods of each Job it has had.
func (n *fakeNode) runs() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	runs := map[string]int{}
	for _, p := range n.known {
		runs[p.job]++
	}
	return runs
}

// printed is what the container of a pod prints: a line when it begins and one when it ends.
func printed(pod string) (first, last string) { return pod + " begins\n", pod + " ends\n" }

// serve answers an API server that asks for the logs of pods, and returns the port.
func (n *fakeNode) serve() (port int32) {
	n.t.Helper()
	cert, key := n.cluster.file("kubelet.crt"), n.cluster.file("kubelet.key")
	writeCertificate(n.t, cert, key)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		n.t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}})
	if err != nil {
		n.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", n.log)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	n.t.Cleanup(func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			n.t.Errorf("the fake kubelet: %v", err)
		}
	}()
	return int32(listener.Addr().(*net.TCPAddr).Port)
}

func (n *fakeNode) log(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("namespace") + "/" + r.PathValue("pod")
	var pod *fakePod
	n.mu.Lock()
	for _, p := range n.known {
		if p.name == name {
			pod = p
		}
	}
	n.mu.Unlock()
	if pod == nil {
		http.Error(w, "no such pod", http.StatusNotFound)
		return
	}
	line := func(at time.Time, text string) {
		if r.URL.Query().Get("timestamps") == "true" {
			text = at.UTC().Format(time.RFC3339Nano) + " " + text
		}
		_, _ = w.Write([]byte(text))
		_ = http.NewResponseController(w).Flush()
	}
	first, last := printed(strings.TrimPrefix(name, "default/"))
	line(pod.began, first)
	select {
	case <-pod.ended:
	default:
		if r.URL.Query().Get("follow") != "true" {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-pod.ended:
		}
	}
	line(pod.began.Add(time.Millisecond), last)
}
