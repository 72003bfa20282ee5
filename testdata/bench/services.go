package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	podsOfService = 10
	serviceDials  = 1000
)

// services measures what virtual addresses cost with few and with many of them: the time from a change of a Service until
// connections of the host follow it, what the daemon spends on that, and the time of a connection.
func (b *bench) services(ctx context.Context) error {
	changes := 20
	if b.quick {
		changes = 6
	}
	b.report.table(fmt.Sprintf("Virtual addresses: %d changes of one Service, %d connections of the host", changes, serviceDials),
		"Services", "pods", "change to effect p50 ms", "p90 ms", "CPU ms of the daemon a change", "connection to a pod p50 us", "to the Service p50 us")
	for _, n := range []int{1, 50} {
		if err := b.someServices(ctx, n, changes); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) someServices(ctx context.Context, n, changes int) error {
	d, err := b.start(ctx, "--network", "bridge")
	if err != nil {
		return err
	}
	defer d.close()
	var first *corev1.Service
	for i := range n {
		app := map[string]string{"app": strconv.Itoa(i)}
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s-%d", i)}}
		s.Spec.Selector, s.Spec.Ports = app, []corev1.ServicePort{{Port: 80}}
		s.Spec.Ports[0].TargetPort.IntVal = 8080
		if s, err = d.CoreV1().Services("default").Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return err
		}
		if i == 0 {
			first = s
		}
	}
	for i := range n {
		j := job(fmt.Sprintf("j-%d", i), podsOfService, podsOfService, "sh", "-c", "mkdir /w; exec httpd -f -p 8080 -h /w")
		j.Spec.Template.Labels = map[string]string{"app": strconv.Itoa(i)}
		if err := d.allRun(ctx, j); err != nil {
			return err
		}
	}
	at := net.JoinHostPort(first.Spec.ClusterIP, "80")
	if err := reachable(ctx, at, true); err != nil {
		return err
	}
	var took []float64
	before := d.self().CPU
	for i := range changes {
		app := map[bool]string{true: "nobody", false: "0"}[i%2 == 0]
		begin := time.Now()
		if _, err := d.CoreV1().Services("default").Patch(ctx, first.Name, types.MergePatchType,
			[]byte(`{"spec":{"selector":{"app":"`+app+`"}}}`), metav1.PatchOptions{}); err != nil {
			return err
		}
		if err := reachable(ctx, at, i%2 == 1); err != nil {
			return err
		}
		took = append(took, float64(time.Since(begin).Microseconds())/1000)
	}
	cpu := (d.self().CPU - before) / float64(changes) * 1000
	pods, err := d.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=0", Limit: 1})
	if err != nil {
		return err
	}
	dials := map[string][]float64{}
	pod := net.JoinHostPort(pods.Items[0].Status.PodIP, "8080")
	for range serviceDials {
		for _, to := range []string{pod, at} {
			begin := time.Now()
			c, err := net.DialTimeout("tcp4", to, time.Minute)
			if err != nil {
				return err
			}
			dials[to] = append(dials[to], float64(time.Since(begin).Microseconds()))
			c.Close()
		}
	}
	b.report.figure(fmt.Sprintf("Services/n=%d/change", n), took, "ms")
	b.report.figure(fmt.Sprintf("Services/n=%d/connection", n), []float64{median(dials[at])}, "us")
	b.report.row(strconv.Itoa(n), strconv.Itoa(n*podsOfService), fmt.Sprintf("%.0f", median(took)), fmt.Sprintf("%.0f", quantile(took, 0.9)),
		fmt.Sprintf("%.1f", cpu), fmt.Sprintf("%.0f", median(dials[pod])), fmt.Sprintf("%.0f", median(dials[at])))
	return nil
}

// reachable waits until connections to an address succeed, or until they do not.
func reachable(ctx context.Context, address string, want bool) error {
	for ctx.Err() == nil {
		c, err := net.DialTimeout("tcp4", address, time.Minute)
		if err == nil {
			c.Close()
		}
		if (err == nil) == want {
			return nil
		}
		time.Sleep(time.Millisecond)
	}
	return ctx.Err()
}
