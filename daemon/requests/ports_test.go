package requests

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPortsOfOneAddressAndOfAll(t *testing.T) {
	at := func(ip string) []Port { return []Port{{corev1.ProtocolTCP, 80, ip}} }
	for _, c := range []struct {
		has, asks string
		busy      bool
	}{
		{"", "", true}, {"", "192.0.2.1", true}, {"192.0.2.1", "", true}, {"192.0.2.1", "192.0.2.1", true}, {"192.0.2.1", "192.0.2.2", false},
	} {
		var taken, others Ports
		taken.Add(at(c.has), 1)
		others.Add(at(c.asks), 1)
		if taken.Busy(at(c.asks)) != c.busy || taken.Meet(others) != c.busy {
			t.Errorf("of %q beside %q is not %v", c.asks, c.has, c.busy)
		}
		taken.Merge(others)
		taken.Add(at(c.has), -1)
		if !taken.Busy(at(c.asks)) {
			t.Errorf("of %q, that others have too, is free", c.asks)
		}
	}
}

func TestPortsOfAPod(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	with := func(port int32, policy *corev1.ContainerRestartPolicy) corev1.Container {
		return corev1.Container{Ports: []corev1.ContainerPort{{HostPort: port, HostIP: "0.0.0.0"}, {ContainerPort: 9}}, RestartPolicy: policy}
	}
	ports := PortsOf(&corev1.PodSpec{
		InitContainers: []corev1.Container{with(1, nil), with(2, &always)}, Containers: []corev1.Container{with(3, nil)},
	})
	if len(ports) != 2 || ports[0] != (Port{Number: 2}) || ports[1] != (Port{Number: 3}) {
		t.Errorf("%v: those of an init container are free before the pod runs", ports)
	}
}
