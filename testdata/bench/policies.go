package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/internal/layout"
	"github.com/jobd/jobd/runtime/pins"
	"github.com/jobd/jobd/runtime/thread"
)

const (
	policyServices = 50
	policyStarts   = 40
	// refusedWithin is how long a connection between pods waits that policies may not allow.
	refusedWithin = 20 * time.Millisecond
)

// policies measures what NetworkPolicies cost beside 500 pods and 50 Services: the start of a pod that they isolate, the
// time from a change of a policy until connections between pods follow it, and the time of such a connection.
func (b *bench) policies(ctx context.Context) error {
	changes, pods := 20, podsOfService
	if b.quick {
		changes, pods = 6, 1
	}
	b.report.table(fmt.Sprintf("NetworkPolicies: %d Services, %d starts of a pod one after the other, %d changes of a policy, %d connections between pods",
		policyServices, policyStarts, changes, serviceDials),
		"pods", "policies", "start and end of a pod ms", "CPU ms of the daemon a pod", "change to effect p50 ms", "p90 ms",
		"CPU ms of the daemon a change", "connection p50 us")
	d, err := b.start(ctx, "--network", "bridge")
	if err != nil {
		return err
	}
	defer d.close()
	for i := range policyServices {
		app := map[string]string{"app": strconv.Itoa(i)}
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%d", i)}}
		s.Spec.Selector, s.Spec.Ports = app, []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
		if _, err := d.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return err
		}
		j := job(fmt.Sprintf("j-%d", i), pods, pods, "sh", "-c", "mkdir /w; exec httpd -f -p 8080 -h /w")
		j.Spec.Template.Labels = app
		if err := d.allRun(ctx, j); err != nil {
			return err
		}
	}
	// What the pods have caused to be written is over by the end of others.
	if _, err := d.run(ctx, job("settle", policyStarts, 1, "true")); err != nil {
		return err
	}
	for _, n := range []int{0, 20} {
		if err := b.somePolicies(ctx, d, n, policyServices*pods, changes); err != nil {
			return err
		}
	}
	return nil
}

// newPolicy returns a policy that selects the pods of two Services, and allows their port to those of two others, to what
// has a label, and to a network.
func newPolicy(i int) *networkingv1.NetworkPolicy {
	apps := func(first int) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{strconv.Itoa(first), strconv.Itoa(first + 1)},
		}}}
	}
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%d", i)}}
	p.Spec.PodSelector = *apps(2 * i)
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{
		From: []networkingv1.NetworkPolicyPeer{
			{PodSelector: apps(2*i + 2)},
			{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"of": strconv.Itoa(i)}}, NamespaceSelector: &metav1.LabelSelector{}},
			{IPBlock: &networkingv1.IPBlock{CIDR: "192.168.0.0/16", Except: []string{fmt.Sprintf("192.168.%d.0/24", i)}}},
		},
		Ports: []networkingv1.NetworkPolicyPort{{Port: ptr.To(intstr.FromInt32(8080))}},
	}}
	return p
}

func (b *bench) somePolicies(ctx context.Context, d *daemon, n, pods, changes int) error {
	api := d.NetworkingV1().NetworkPolicies("default")
	for i := range n {
		if _, err := api.Create(ctx, newPolicy(i), metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	j := job("true", policyStarts, 1, "true")
	j.Spec.Template.Labels = map[string]string{"app": "0"}
	before := d.self().CPU
	took, err := d.run(ctx, j)
	if err != nil {
		return err
	}
	starts := (d.self().CPU - before) / policyStarts * 1000
	if _, err := d.remove(ctx, "true"); err != nil {
		return err
	}
	from, err := d.podOf(ctx, "2")
	if err != nil {
		return err
	}
	to, err := d.podOf(ctx, "0")
	if err != nil {
		return err
	}
	at := net.JoinHostPort(to.Status.PodIP, "8080")
	dial := func(limit time.Duration) (time.Duration, error) {
		begin := time.Now()
		err := d.inPod(from, func() error {
			begin = time.Now()
			c, err := net.DialTimeout("tcp4", at, limit)
			if err == nil {
				c.Close()
			}
			return err
		})
		return time.Since(begin), err
	}
	var followed, dials []float64
	before = d.self().CPU
	for i := range changes {
		if n == 0 {
			break
		}
		rules, allowed := newPolicy(0).Spec.Ingress, i%2 == 1
		if !allowed {
			rules = []networkingv1.NetworkPolicyIngressRule{}
		}
		p := newPolicy(0)
		p.Spec.Ingress = rules
		begin := time.Now()
		if _, err := api.Update(ctx, p, metav1.UpdateOptions{}); err != nil {
			return err
		}
		for ctx.Err() == nil {
			if _, err := dial(refusedWithin); (err == nil) == allowed {
				break
			}
		}
		followed = append(followed, float64(time.Since(begin).Microseconds())/1000)
	}
	perChange := (d.self().CPU - before) / float64(changes) * 1000
	for range serviceDials {
		took, err := dial(time.Minute)
		if err != nil {
			return err
		}
		dials = append(dials, float64(took.Nanoseconds())/1000)
	}
	cells := []string{"-", "-", "-"}
	if n > 0 {
		cells = []string{
			fmt.Sprintf("%.0f", median(followed)), fmt.Sprintf("%.0f", quantile(followed, 0.9)), fmt.Sprintf("%.1f", perChange),
		}
		b.report.figure(fmt.Sprintf("Policies/n=%d/change", n), followed, "ms")
	}
	each := took.Seconds() * 1000 / policyStarts
	b.report.figure(fmt.Sprintf("Policies/n=%d/pod", n), []float64{each}, "ms")
	b.report.figure(fmt.Sprintf("Policies/n=%d/connection", n), []float64{median(dials)}, "us")
	b.report.row(append(append([]string{strconv.Itoa(pods), strconv.Itoa(n), fmt.Sprintf("%.1f", each), fmt.Sprintf("%.1f", starts)},
		cells...), fmt.Sprintf("%.0f", median(dials)))...)
	return ctx.Err()
}

// podOf returns a running pod of a Service.
func (d *daemon) podOf(ctx context.Context, app string) (*corev1.Pod, error) {
	pods, err := d.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=" + app, Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(pods.Items) == 0 {
		return nil, fmt.Errorf("there is no pod of %s", app)
	}
	return &pods.Items[0], nil
}

// inPod calls fn in the network of a pod.
func (d *daemon) inPod(p *corev1.Pod, fn func() error) error {
	pinned, err := pins.Open(layout.State(d.State), false, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer pinned.Close() // which leaves all as it is, since the pod's network is pinned
	ns, err := pinned.Find(filepath.Join(layout.State(d.State).Network(), string(p.UID), "net"))
	if err != nil {
		return err
	}
	defer ns.Close()
	return thread.Run(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return fn()
	})
}
