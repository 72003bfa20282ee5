package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestPortForward reaches into the networks of pods: one that listens on its loopback interface only, and one that uses
// the host's network.
func TestPortForward(t *testing.T) {
	t.Parallel()
	d := start(t, "--listen", freePort(t))
	_, port, _ := net.SplitHostPort(freePort(t))
	web := func(name, port, network string) string {
		return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, labels: {app: %s}}
spec:
  terminationGracePeriodSeconds: 1
  hostNetwork: %s
  containers:
  - {name: web, image: "busybox:1.36", ports: [{name: http, containerPort: %s}], command: [sh, -c, "mkdir /w; echo I am %s >/w/index.html; exec httpd -f -p 127.0.0.1:%s -h /w"],
     readinessProbe: {exec: {command: [wget, -q, -O, /dev/null, "http://127.0.0.1:%s/"]}, periodSeconds: 1, timeoutSeconds: 60}}
`, name, name, network, port, name, port, port)
	}
	d.apply(web("inside", "8080", "false") + "---" + web("outside", port, "true") + `---
apiVersion: v1
kind: Service
metadata: {name: number}
spec: {selector: {app: inside}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: name}
spec: {selector: {app: inside}, ports: [{port: 80, targetPort: http}]}
`)
	d.jobctl("wait", "--for=condition=Ready", "pod/inside", "pod/outside", patiently)
	for name, program := range d.programs(t) {
		t.Run(name, func(t *testing.T) {
			for _, to := range []struct{ object, port, pod string }{
				{"inside", "http", "inside"}, {"outside", port, "outside"},
				{"svc/number", "80", "inside"}, {"svc/name", "80", "inside"},
			} {
				c := talk(t, program("port-forward", to.object, ":"+to.port))
				at := c.forwards()
				for range 3 {
					if got, err := ask(at); err != nil || got != "I am "+to.pod+"\n" {
						t.Errorf("%s answers %q, %v", to.object, got, err)
					}
				}
				c.kill()
			}
			c := talk(t, program("port-forward", "inside", ":81"))
			at := c.forwards()
			// The end of the connection can overtake the reason; the client then shows only the end.
			for late := time.Now().Add(patience); !strings.Contains(c.output(), "connection refused") && time.Now().Before(late); {
				if got, err := ask(at); err == nil {
					t.Errorf("a port on which nobody listens answers %q", got)
				}
				time.Sleep(50 * time.Millisecond)
			}
			c.hears("error forwarding port 81 to pod inside, uid ")
			c.hears("connect: connection refused")
		})
	}
	if out, err := d.try("jobctl", nil, "port-forward", "nosuch", ":80"); err == nil || !strings.Contains(out, "not found") {
		t.Errorf("no such pod: %v: %s", err, out)
	}
}

var forwarding = regexp.MustCompile(`Forwarding from (127\.0\.0\.1:\d+) `)

// forwards waits until a port-forward listens, and returns the address.
func (c *conversation) forwards() string {
	c.t.Helper()
	c.hears("Forwarding from 127.0.0.1:")
	for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		if found := forwarding.FindStringSubmatch(c.output()); found != nil {
			return found[1]
		}
	}
	c.t.Fatalf("it says %q", c.output())
	return ""
}

func ask(address string) (string, error) {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + address + "/")
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return string(body), err
}

// TestCopy copies a directory into a container and back.
func TestCopy(t *testing.T) {
	t.Parallel()
	d := start(t, "--listen", freePort(t))
	d.apply(sleeper("long", 1, 1000, ""))
	pod := d.running("long", 1)[0].Name
	from := t.TempDir()
	shell := func(command string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = from
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	shell("mkdir -p some/deep; echo words >some/deep/file; head -c 3000000 /dev/urandom >some/big; : >some/empty; chmod 700 some/deep")
	for name, program := range d.programs(t) {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			id := strings.ReplaceAll(name, " ", "-")
			for _, args := range [][]string{{from + "/some", pod + ":/tmp/" + id}, {pod + ":/tmp/" + id, to + "/back"}} {
				if out, err := program(append([]string{"cp"}, args...)...).CombinedOutput(); err != nil {
					t.Fatalf("cp %v: %v\n%s", args, err, out)
				}
			}
			shell("diff -r some " + to + "/back")
		})
	}
	// The exit code tells what kubectl's leaves to luck (kubectl#980).
	shell("echo x >'g[1]'")
	to := filepath.Join(t.TempDir(), "x")
	for want, args := range map[string][]string{
		"No such file":                     {pod + ":/nosuch", to},
		"error exit delayed":               {"--retries", "2", pod + ":/nosuch", to},
		"a pattern, which matches no file": {from + "/g[1]", pod + ":/tmp"},
		"terminated with exit code":        {from + "/some", pod + ":/proc/nosuch"},
	} {
		for range 5 {
			if out, err := d.try("jobctl", nil, append([]string{"cp"}, args...)...); err == nil || !strings.Contains(out, want) {
				t.Errorf("cp %v: %v: %s", args, err, out)
			}
		}
	}
}
