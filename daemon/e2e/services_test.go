package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A Service has an address of its own, which leads from its port to that of a pod: for pods, by name too, for the host,
// and at a port of the host. All of it outlives the daemon, and goes with the Service.
func TestServiceAddresses(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.needBridge()
	d.apply(`
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{name: http, port: 80, targetPort: serve}]}
---
apiVersion: v1
kind: Service
metadata: {name: nobody}
spec: {selector: {app: nobody}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: "busybox:1.36", ports: [{name: serve, containerPort: 8080}], command: [sh, -c, "mkdir /w; echo hello >/w/index.html; exec httpd -f -p 8080 -h /w"]}
`)
	get := func(jsonpath string) string {
		return d.jobctl("get", "service", "web", "-o", "jsonpath={"+jsonpath+"}")
	}
	ip, port := get(".spec.clusterIP"), get(".spec.ports[0].nodePort")
	fetch := func(address string) func() error {
		return func() error {
			client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
			answer, err := client.Get("http://" + address + "/")
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if body, err := io.ReadAll(answer.Body); err != nil || string(body) != "hello\n" {
				return fmt.Errorf("%q: %w", body, err)
			}
			return nil
		}
	}
	d.eventually("the host reaches the address", fetch(ip))
	d.eventually("the port of the host leads there", fetch("127.0.0.1:"+port))
	d.apply(scriptJob("client", `until wget -q -O - http://web; do sleep 0.2; done
nslookup -type=srv _http._tcp.web.default.svc.cluster.local. | grep -o 'service = .*'
nslookup `+ip+` | grep -o 'name = .*'
wget -O - http://nobody 2>&1 | grep -o refused
wget -O - http://web:8080 2>&1 | grep -o refused`))
	d.complete("client")
	const want = "hello\nservice = 0 100 80 web.default.svc.cluster.local\nname = web.default.svc.cluster.local\nrefused\nrefused\n"
	if got := d.jobctl("logs", "jobs/client"); got != want {
		t.Errorf("a pod: got\n%swant\n%s", got, want)
	}
	if got := d.jobctl("get", "--raw", "/api/v1/namespaces/default/services/web:http/proxy/"); got != "hello\n" {
		t.Errorf("services/proxy: %q", got)
	}
	d.kill()
	if err := fetch(ip)(); err != nil {
		t.Errorf("without the daemon: %v", err)
	}
	d.serve()
	if again := get(".spec.clusterIP"); again != ip {
		t.Errorf("after a restart the address is %s, was %s", again, ip)
	}
	if err := fetch(ip)(); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	d.jobctl("delete", "service", "web")
	d.eventually("it ends with the Service", func() error {
		if err := fetch(ip)(); err == nil || !strings.Contains(err.Error(), "refused") {
			return fmt.Errorf("it says %v", err)
		}
		return nil
	})
}
