package e2e

import (
	"strings"
	"testing"
)

// A Service's named ports (SRV), a pod's own name (PTR) and the name of an address are found as in a cluster; a name without an IPv6 address is
// no error.
func TestNamesOfPorts(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.needBridge()
	d.apply(`
apiVersion: v1
kind: Service
metadata: {name: svc}
spec: {clusterIP: None, selector: {app: a}, publishNotReadyAddresses: true, ports: [{name: http, port: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {app: a}}
spec:
  hostname: me
  subdomain: svc
  restartPolicy: Never
  containers:
  - name: c
    image: busybox:1.36
    env: [{name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}]
    command:
    - sh
    - -c
    - |
      until nslookup -type=srv _http._tcp.svc.default.svc.cluster.local. > /tmp/srv 2>&1 && grep -q 8080 /tmp/srv; do sleep 0.1; done
      grep -o 'service = .*' /tmp/srv
      nslookup -type=srv svc.default.svc.cluster.local. | grep -o 'service = .*'
      nslookup $IP | grep -o 'name = .*'
      nslookup 192-0-2-77.default.pod.cluster.local. | grep -o '192[.]0[.].*'
      nslookup -type=aaaa me.svc.default.svc.cluster.local. | grep -c -i -E 'NXDOMAIN|SERVFAIL'
`)
	d.podUntil("a", "has succeeded", ended)
	const want = "service = 0 100 8080 me.svc.default.svc.cluster.local\nservice = 0 100 8080 " +
		"me.svc.default.svc.cluster.local\nname = me.svc.default.svc.cluster.local\n192.0.2.77\n0\n"
	if got := d.jobctl("logs", "a"); strings.TrimSpace(got) != strings.TrimSpace(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
