package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/remotecommand"
)

// streamer is a pod p with a container c that has files, a port that counts and one that is upgraded, and a user who may
// write little.
const streamer = `
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  volumes: [{name: small, emptyDir: {medium: Memory, sizeLimit: 1Mi}}]
  containers:
  - {name: c, image: "busybox:1.36", command: [sh, -c, "while :; do nc -l -p 8000 -e sh -c 'wc -c >>/tmp/forwarded'; done"]}
  - name: upgraded
    image: busybox:1.36
    command:
    - sh
    - -c
    - |
      cat >/tmp/serve <<'END'
      while read line && test "${#line}" -gt 1; do :; done
      printf 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: counting\r\n\r\n'
      wc -c >>/tmp/upgraded
      END
      while :; do nc -l -p 8001 -e sh /tmp/serve; done
  - name: user
    image: busybox:1.36
    command: [sh, -c, "while :; do echo line; sleep 0.01; done"]
    securityContext: {runAsUser: 1000}
    volumeMounts: [{name: small, mountPath: /small}]
`

// TestStreamsOfManyBytes sends 200 MB by each kind of stream to a client that leaves with the last byte.
func TestStreamsOfManyBytes(t *testing.T) {
	t.Parallel()
	d := start(t, "--listen", freePort(t))
	config := d.stream()
	const size = 200 << 20
	for i, transport := range transports {
		t.Run("exec by "+transport, func(t *testing.T) {
			v := d.visit(config, transport, "/api/v1/namespaces/default/pods/p/exec", url.Values{
				"container": {"c"}, "stdin": {"true"}, "stdout": {"true"}, "command": {"sh", "-c", fmt.Sprint("wc -c >/tmp/many", i)},
			})
			v.sends(t, size)
			v.raw.Close()
			d.reads(config, "c", fmt.Sprint("/tmp/many", i), fmt.Sprintln(size))
		})
		t.Run("what is read by "+transport, func(t *testing.T) {
			v := d.visit(config, transport, "/api/v1/namespaces/default/pods/p/exec", url.Values{
				"container": {"c"}, "stdin": {"true"}, "stdout": {"true"}, "command": {"head", "-c", fmt.Sprint(size), "/dev/zero"},
			})
			if n, err := io.Copy(io.Discard, io.LimitReader(v.output, size)); n != size {
				t.Errorf("%d bytes: %v", n, err)
			}
		})
	}
	for _, transport := range []string{"SPDY", "SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io"} {
		t.Run("port-forward by "+transport, func(t *testing.T) {
			d.reads(config, "c", "/proc/net/tcp /proc/net/tcp6", " 0A ")
			v := d.forward(config, transport, "/api/v1/namespaces/default/pods/p/portforward")
			v.sends(t, size)
			if transport == "v4.channel.k8s.io" {
				v.raw.CloseWrite() // nobody reads there, and to close what has not been read resets the connection
			} else {
				v.raw.Close()
			}
			d.reads(config, "c", "/tmp/forwarded", fmt.Sprintln(size))
			d.inside(config, "c", "sh", "-c", ">/tmp/forwarded")
		})
	}
}

// stream makes the pod of streams.
func (d *daemon) stream() *rest.Config {
	d.t.Helper()
	d.apply(streamer)
	d.jobctl("wait", "--for=condition=Ready", "pod/p", patiently)
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(d.root, "kubeconfig"))
	if err != nil {
		d.t.Fatal(err)
	}
	return config
}

// reads waits until a file of a container has some words.
func (d *daemon) reads(config *rest.Config, container, file, want string) {
	d.t.Helper()
	d.eventually(fmt.Sprintf("%s says %q", file, want), func() error {
		if out := d.inside(config, container, "sh", "-c", "cat "+file); !strings.Contains(out, want) {
			return fmt.Errorf("it says %q", out)
		}
		return nil
	})
}

// TestClientsOfOtherStreamsLeave is TestClientsLeave for upgrades that are proxied, logs that are followed, and copies.
func TestClientsOfOtherStreamsLeave(t *testing.T) {
	t.Parallel()
	d := start(t, "--listen", freePort(t))
	config := d.stream()
	proxied := func() (*visitor, io.Writer) {
		raw, conn := d.dial(config)
		r, _ := http.NewRequest(http.MethodGet, config.Host+"/api/v1/namespaces/default/pods/p:8001/proxy/", nil)
		r.Header = http.Header{"Authorization": {"Bearer " + config.BearerToken}, "Connection": {"Upgrade"}, "Upgrade": {"counting"}}
		if err := r.Write(conn); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), r)
		if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
			t.Fatal(err, answer)
		}
		return &visitor{raw: raw, input: conn, goodbye: func() { conn.Close() }}, conn
	}
	sent := 1_000_000
	for way, leave := range ways {
		t.Run("an upgrade by the proxy of pods, "+way, func(t *testing.T) {
			d.reads(config, "upgraded", "/proc/net/tcp /proc/net/tcp6", ":1F41 ")
			sent++
			v, _ := proxied()
			v.sends(t, sent)
			leave(v)
			d.reads(config, "upgraded", "/tmp/upgraded", fmt.Sprintln(sent))
		})
	}
	for name, program := range d.programs(t) {
		t.Run(name+" that follows a log and is killed", func(t *testing.T) {
			c := talk(t, program("logs", "-f", "p", "-c", "user"))
			c.hears("line\nline\n")
			c.kill()
		})
		id := strings.ReplaceAll(name, " ", "-")
		t.Run(name+" that copies and is killed", func(t *testing.T) {
			large := filepath.Join(t.TempDir(), "large")
			if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, 4<<30)); err != nil {
				t.Fatal(err)
			}
			c := talk(t, program("cp", large, "p:/tmp/"+id, "-c", "c"))
			d.eventually("it copies", func() error {
				if out := d.inside(config, "c", "stat", "-c", "%s", "/tmp/"+id); out == "" || out == "0\n" {
					return fmt.Errorf("it has %q bytes: %s", out, c.output())
				}
				return nil
			})
			c.kill()
			d.inside(config, "c", "sh", "-c", "rm /tmp/"+id+"; truncate -s 100M /tmp/"+id)
			back := filepath.Join(t.TempDir(), "back")
			c = talk(t, program("cp", "p:/tmp/"+id, back, "-c", "c"))
			d.eventually("it copies back", func() error {
				if info, err := os.Stat(back); err != nil || info.Size() == 0 {
					return fmt.Errorf("there is %v, %w: %s", info, err, c.output())
				}
				return nil
			})
			c.kill()
			d.eventually("no tar is left", func() error {
				if out := d.inside(config, "c", "ps"); strings.Contains(out, "tar ") {
					return errors.New(out)
				}
				return nil
			})
		})
	}
	d.eventually("nobody waits for those who have left", func() error {
		goroutines := d.jobctl("get", "--raw", "/debug/pprof/goroutine?debug=1")
		for _, name := range []string{"serveStreams", "PortForward", "watchHangUp", "UpgradeAwareHandler", "streamLog"} {
			if strings.Contains(goroutines, name) {
				return fmt.Errorf("goroutines:\n%s", goroutines)
			}
		}
		return nil
	})
}

// TestCopiesThatCannotBe says why not, with an exit code, whoever copies.
func TestCopiesThatCannotBe(t *testing.T) {
	t.Parallel()
	d := start(t, "--listen", freePort(t))
	config := d.stream()
	from := filepath.Join(t.TempDir(), "from")
	if err := os.WriteFile(from, bytes.Repeat([]byte("0123456789abcde\n"), 1<<18), 0o600); err != nil {
		t.Fatal(err)
	}
	d.inside(config, "user", "sh", "-c", "head -c 100 /dev/zero >/small/mine; chmod 0 /small/mine")
	for name, program := range d.programs(t) {
		for want, args := range map[string][]string{
			"ermission denied":   {from, "p:/root-only", "-c", "user"},
			"No space left":      {from, "p:/small/x", "-c", "user"},
			"can't open '/proc/": {"p:/proc/kmsg", filepath.Join(t.TempDir(), "x"), "-c", "user"},
			"an't open":          {"p:/small/mine", filepath.Join(t.TempDir(), "x"), "-c", "user"},
		} {
			if args[0] != from && name != "jobctl" {
				continue // what kubectl says of a copy out of a container is left to luck (kubectl#980)
			}
			out, err := program(append([]string{"cp"}, args...)...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s cp %v: %v: %s", name, args, err, out)
			}
		}
		t.Run(name+", tar dies in the middle", func(t *testing.T) {
			large := filepath.Join(t.TempDir(), "large")
			if err := errors.Join(os.WriteFile(large, nil, 0o600), os.Truncate(large, 4<<30)); err != nil {
				t.Fatal(err)
			}
			c := talk(t, program("cp", large, "p:/tmp/large", "-c", "c"))
			d.eventually("tar has been killed", func() error {
				if out := d.inside(config, "c", "sh", "-c", "test -s /tmp/large && killall -9 tar && echo killed"); out != "killed\n" {
					return fmt.Errorf("%q, %s", out, c.output())
				}
				return nil
			})
			if code := c.ends(); code == 0 || !strings.Contains(c.output(), "137") && !strings.Contains(c.output(), "ipe") {
				t.Errorf("exit code %d: %s", code, c.output())
			}
			d.inside(config, "c", "rm", "/tmp/large")
		})
	}
}

// TestExecsThatOutliveAreBounded starts more processes whose clients leave than a container may have.
func TestExecsThatOutliveAreBounded(t *testing.T) {
	t.Parallel()
	d := start(t, "--listen", freePort(t))
	config := d.stream()
	const most = 256
	var all sync.WaitGroup
	places := make(chan struct{}, 16)
	for range most {
		all.Add(1)
		places <- struct{}{}
		go func() {
			defer all.Done()
			v := d.visit(config, "v5.channel.k8s.io", "/api/v1/namespaces/default/pods/p/exec", url.Values{
				"container": {"c"}, "stdin": {"true"}, "stdout": {"true"}, "command": {"sh", "-c", "echo ready; exec sleep 1000"},
			})
			v.hears(t, "ready")
			v.raw.Close()
			<-places
		}()
	}
	all.Wait()
	one := func(command ...string) (string, error) {
		to, _ := url.Parse(
			config.Host + "/api/v1/namespaces/default/pods/p/exec?" + url.Values{"container": {"c"}, "command": command, "stdout": {"true"}}.Encode(),
		)
		executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, to)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		err = executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdout: &out})
		return out.String(), err
	}
	if out, err := one("true"); !apierrors.IsTooManyRequests(err) && (err == nil || !strings.Contains(err.Error(), "more are not allowed")) {
		t.Errorf("exec number %d: %q, %v", most+1, out, err)
	}
	if out, err := d.try("jobctl", nil, "exec", "p", "-c", "c", "--", "true"); err == nil || !strings.Contains(out, "more are not allowed") {
		t.Errorf("jobctl exec: %v: %s", err, out)
	}
	if out, err := d.try("jobctl", nil, "exec", "p", "-c", "user", "--", "echo", "fine"); err != nil || out != "fine\n" {
		t.Errorf("in another container: %v: %s", err, out)
	}
	d.jobctl("delete", "pod", "p", "--grace-period=0", "--force")
	d.apply(strings.ReplaceAll(streamer, "{name: p}", "{name: p2}"))
	d.jobctl("wait", "--for=condition=Ready", "pod/p2", patiently)
	late := time.Now().Add(patience)
	for out, err := d.try("jobctl", nil, "exec", "p2", "-c", "c", "--", "echo", "fine"); err != nil || out != "fine\n"; {
		if time.Now().After(late) {
			t.Fatalf("in another pod: %v: %s", err, out)
		}
	}
}
