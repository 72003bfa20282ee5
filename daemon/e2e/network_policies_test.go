package e2e

import (
	"strings"
	"testing"
)

// NetworkPolicies as people write them: a server that only its friends reach, by its Service too, while the node still
// probes it, and a Job that reaches names and the server, and nothing else. They hold from the first packet on, outlive
// the daemon, and end with the policies.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.needBridge()
	d.apply(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress:
  - from: [{podSelector: {matchLabels: {friend: "yes"}}}]
    ports: [{port: serve}]
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: sealed}
spec:
  podSelector: {matchLabels: {sealed: "yes"}}
  policyTypes: [Ingress, Egress]
  egress:
  - to: [{podSelector: {matchLabels: {app: web}}}]
  - to: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: kube-system}}, podSelector: {matchLabels: {k8s-app: kube-dns}}}]
    ports: [{protocol: UDP, port: 53}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: serve}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: c
    image: busybox:1.36
    ports: [{name: serve, containerPort: 8080}]
    readinessProbe: {httpGet: {path: /, port: serve}, periodSeconds: 1}
    command: [sh, -c, "mkdir /w; echo hello >/w/index.html; httpd -p 8081 -h /w; exec httpd -f -p 8080 -h /w"]
---
apiVersion: v1
kind: Pod
metadata: {name: other}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - {name: c, image: "busybox:1.36", command: [sh, -c, "mkdir /w; echo other >/w/index.html; exec httpd -f -p 8080 -h /w"]}
`)
	d.jobctl("wait", "--for=condition=Ready", "pod/web", "pod/other", "--timeout="+patience.String())
	web, other := d.podIP("web"), d.podIP("other")
	gateway := d.jobctl("exec", "other", "--", "sh", "-c", "ip route | sed -n 's/default via \\([0-9.]*\\).*/\\1/p'")
	// Each try says who has answered. What is to be answered is tried until it is, and what is not once.
	const tries = `
reaches() { until timeout 5 wget -q -O - "$1"; do sleep 0.2; done; }
misses() { timeout 2 wget -q -O - "$1" 2>/dev/null || echo nobody; }
`
	client := func(name, label, script string) {
		manifest := scriptJob(name, tries+script)
		if label != "" {
			manifest = strings.Replace(manifest, "template:", "template:\n    metadata: {labels: {"+label+"}}", 1)
		}
		d.apply(manifest)
	}
	client("friend", `friend: "yes"`, "reaches http://web; reaches http://"+web+":8080; misses http://"+web+":8081; reaches http://"+other+":8080")
	client("stranger", "", "misses http://"+web+":8080; misses http://web; reaches http://"+other+":8080")
	client("sealed", `sealed: "yes", friend: "yes"`, "misses http://"+other+":8080; reaches http://web; misses http://"+strings.TrimSpace(gateway)+":443")
	for name, want := range map[string]string{
		"friend": "hello\nhello\nnobody\nother\n", "stranger": "nobody\nnobody\nother\n", "sealed": "nobody\nhello\nnobody\n",
	} {
		d.complete(name)
		if got := d.jobctl("logs", "jobs/"+name); got != want {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		}
	}
	d.kill()
	d.serve()
	client("later", "", "misses http://"+web+":8080")
	d.complete("later")
	if got := d.jobctl("logs", "jobs/later"); got != "nobody\n" {
		t.Errorf("after a restart: %q", got)
	}
	d.jobctl("delete", "networkpolicy", "web", "sealed")
	client("last", "", "reaches http://"+web+":8080")
	d.complete("last")
}
