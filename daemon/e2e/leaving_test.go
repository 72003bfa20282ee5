package e2e

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	tunneling "k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// visitor is a client of a stream that has its connection in its own hands.
type visitor struct {
	raw   *net.TCPConn
	input io.Writer
	// halfClose ends the input alone; nil where the transport cannot do that.
	halfClose func()
	// goodbye ends the connection in the way of the transport.
	goodbye func()
	output  io.Reader
}

// transports are the ways to carry the streams of a process.
var transports = []string{"SPDY", "v4.channel.k8s.io", "v5.channel.k8s.io"}

// ways are how a client leaves.
var ways = map[string]func(v *visitor){
	"FIN":     func(v *visitor) { v.raw.CloseWrite() },
	"close":   func(v *visitor) { v.raw.Close() },
	"goodbye": func(v *visitor) { v.goodbye() },
	"the end of its input, and then FIN": func(v *visitor) {
		if v.halfClose != nil {
			v.halfClose()
		}
		v.raw.CloseWrite()
	},
}

// dial opens a connection to the daemon, over TLS, and sends the head of a request.
func (d *daemon) dial(config *rest.Config) (*net.TCPConn, net.Conn) {
	d.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(config.Host, "https://"))
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn), tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
}

// upgrade asks for SPDY.
func (d *daemon) upgrade(config *rest.Config, path, protocol string) (*net.TCPConn, httpstream.Connection) {
	d.t.Helper()
	raw, conn := d.dial(config)
	r, _ := http.NewRequest(http.MethodPost, config.Host+path, nil)
	r.Header = http.Header{
		"Authorization": {"Bearer " + config.BearerToken}, "Connection": {"Upgrade"}, "Upgrade": {"SPDY/3.1"},
		"X-Stream-Protocol-Version": {protocol},
	}
	if err := r.Write(conn); err != nil {
		d.t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err != nil || answer.StatusCode != http.StatusSwitchingProtocols {
		d.t.Fatal(err, answer)
	}
	streams, err := spdy.NewClientConnection(conn)
	if err != nil {
		d.t.Fatal(err)
	}
	return raw, streams
}

// webSocket opens a WebSocket.
func (d *daemon) webSocket(config *rest.Config, path, protocol string) (*net.TCPConn, *websocket.Conn) {
	d.t.Helper()
	raw, conn := d.dial(config)
	// An API server takes each frame for a message.
	dialer := websocket.Dialer{
		WriteBufferSize: 64 << 10, Subprotocols: []string{protocol},
		NetDialTLSContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}
	socket, answer, err := dialer.Dial("wss"+strings.TrimPrefix(config.Host, "https")+path, http.Header{"Authorization": {"Bearer " + config.BearerToken}})
	if err != nil {
		d.t.Fatal(err, answer)
	}
	return raw, socket
}

func farewell(socket *websocket.Conn) func() {
	return func() {
		_ = socket.WriteMessage(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""))
	}
}

// visit opens exec or attach.
func (d *daemon) visit(config *rest.Config, transport, path string, query url.Values) *visitor {
	d.t.Helper()
	tty := query.Get("tty") == "true"
	path += "?" + query.Encode()
	if transport == "SPDY" {
		raw, conn := d.upgrade(config, path, "v4.channel.k8s.io")
		v := &visitor{raw: raw, goodbye: func() { conn.Close() }}
		kinds := []string{corev1.StreamTypeError, corev1.StreamTypeStdin, corev1.StreamTypeStdout}
		if tty {
			kinds = append(kinds, corev1.StreamTypeResize)
		}
		for _, kind := range kinds {
			stream, err := conn.CreateStream(http.Header{corev1.StreamType: {kind}})
			if err != nil {
				d.t.Fatal(err)
			}
			switch kind {
			case corev1.StreamTypeStdin:
				v.input, v.halfClose = stream, func() { stream.Close() }
			case corev1.StreamTypeStdout:
				v.output = stream
			}
		}
		return v
	}
	raw, socket := d.webSocket(config, path, transport)
	// A message without content says that the connection is established, but for v5. Were it still to be read when the connection is
	// closed, the kernel would reset that, and what is in flight would be lost.
	if transport != "v5.channel.k8s.io" {
		if _, message, err := socket.ReadMessage(); err != nil || len(message) > 1 {
			d.t.Fatal(message, err)
		}
	}
	v := &visitor{raw: raw, goodbye: farewell(socket), input: channel{socket, 0}}
	if transport == "v5.channel.k8s.io" {
		v.halfClose = func() { _ = socket.WriteMessage(websocket.BinaryMessage, []byte{255, 0}) }
	}
	read, write := io.Pipe()
	go func() {
		for {
			_, message, err := socket.ReadMessage()
			if err != nil {
				write.CloseWithError(err)
				return
			}
			if len(message) > 1 && message[0] == 1 {
				_, _ = write.Write(message[1:])
			}
		}
	}()
	v.output = read
	return v
}

// channel writes to a channel of a WebSocket.
type channel struct {
	socket *websocket.Conn
	number byte
}

func (c channel) Write(b []byte) (int, error) {
	return len(b), c.socket.WriteMessage(websocket.BinaryMessage, append([]byte{c.number}, b...))
}

// hears waits for what a process says.
func (v *visitor) hears(t *testing.T, words string) {
	t.Helper()
	var heard []byte
	for buffer := make([]byte, 1024); !bytes.Contains(heard, []byte(words)); {
		n, err := v.output.Read(buffer)
		if heard = append(heard, buffer[:n]...); err != nil {
			t.Fatalf("%q, and then %v", heard, err)
		}
	}
}

// sends writes so many bytes.
func (v *visitor) sends(t *testing.T, size int) {
	t.Helper()
	for piece := bytes.Repeat([]byte("0123456789abcde\n"), 2048); size > 0; size -= len(piece) {
		if _, err := v.input.Write(piece[:min(size, len(piece))]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestClientsLeave closes streams of each kind, over each transport, in each way and at each moment: what was sent arrives, and
// then the end of the input; what nobody waits for any more goes on.
func TestClientsLeave(t *testing.T) {
	eachRuntime(t, func(t *testing.T, d *daemon) {
		var once strings.Builder
		for _, transport := range transports {
			for way := range ways {
				fmt.Fprintf(
					&once,
					"  - {name: %s, image: \"busybox:1.36\", stdin: true, stdinOnce: true, command: [sh, -c, \"sleep 1; wc -c >/dev/termination-log\"]}\n",
					onceName(transport, way),
				)
			}
		}
		d.apply(`
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [
  {name: c, image: "busybox:1.36", command: [sh, -c, "while :; do nc -l -p 8000 -e sh -c 'sleep 0.5; wc -c >>/tmp/forwarded'; done"]},
  {name: lines, image: "busybox:1.36", stdin: true, command: [sh, -c, "while read l; do echo $l >>/tmp/lines; done"]},
  {name: terminal, image: "busybox:1.36", stdin: true, tty: true, command: [sh, -c, "while read l; do echo $l >>/tmp/lines; done"]}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: once}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers:
` + once.String())
		d.jobctl("wait", "--for=condition=Ready", "pod/p", "pod/once", patiently)
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(d.root, "kubeconfig"))
		if err != nil {
			t.Fatal(err)
		}
		const pod = "/api/v1/namespaces/default/pods/p"
		query := func(container, tty, script string) url.Values {
			q := url.Values{"container": {container}, "stdin": {"true"}, "stdout": {"true"}, "tty": {tty}}
			if script != "" {
				q["command"] = []string{"sh", "-c", script}
			}
			return q
		}
		// says asserts what there is to be read in a container, sooner or later.
		says := func(t *testing.T, container, file, want string) {
			t.Helper()
			var out string
			for late := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
				out = d.inside(config, container, "sh", "-c", "cat "+file)
				if strings.Contains(out, want) {
					return
				}
				if time.Now().After(late) {
					t.Errorf("%s says %q, want %q", file, out, want)
					return
				}
			}
		}
		n := 0
		each := func(what string, do func(t *testing.T, transport string, id int, leave func(*visitor))) {
			t.Run(what, func(t *testing.T) {
				for _, transport := range transports {
					for way, leave := range ways {
						id := n
						n++
						t.Run(transport+", "+way, func(t *testing.T) {
							t.Parallel()
							do(t, transport, id, leave)
						})
					}
				}
			})
		}
		exec := func(t *testing.T, transport string, tty bool, script string) *visitor {
			return d.visit(config, transport, pod+"/exec", query("c", strconv.FormatBool(tty), script))
		}
		for moment, size := range map[string]int{"at once": 6, "64 kB in flight": 64 << 10, "4 MB in flight": 4 << 20} {
			each("exec "+moment, func(t *testing.T, transport string, id int, leave func(*visitor)) {
				v := exec(t, transport, false, fmt.Sprintf("sleep 0.3; wc -c >/tmp/%d; seq 50000; echo end >>/tmp/%[1]d", id))
				v.sends(t, size)
				leave(v)
				says(t, "c", fmt.Sprintf("/tmp/%d", id), fmt.Sprintf("%d\nend\n", size))
			})
		}
		each("exec while it writes", func(t *testing.T, transport string, id int, leave func(*visitor)) {
			v := exec(t, transport, false, fmt.Sprintf("seq 30000; cat >/tmp/%d; echo end >>/tmp/%[1]d", id))
			v.hears(t, "1\n2\n")
			leave(v)
			says(t, "c", fmt.Sprintf("/tmp/%d", id), "end\n")
		})
		each("exec with a terminal", func(t *testing.T, transport string, id int, leave func(*visitor)) {
			v := exec(
				t, transport, true,
				// A trap may come before what the shell does with what it has read.
				fmt.Sprintf("trap hup=1 HUP; echo ready; read x; echo $x >/tmp/%d; until [ \"$hup\" ]; do sleep 0.1; done; echo hung up >>/tmp/%[1]d", id),
			)
			v.hears(t, "ready")
			_, _ = io.WriteString(v.input, "typed\n")
			leave(v)
			says(t, "c", fmt.Sprintf("/tmp/%d", id), "typed\nhung up\n")
		})
		for _, container := range []string{"lines", "terminal"} {
			each("attach to "+container, func(t *testing.T, transport string, id int, leave func(*visitor)) {
				v := d.visit(config, transport, pod+"/attach", query(container, strconv.FormatBool(container == "terminal"), ""))
				_, _ = fmt.Fprintf(v.input, "line %d of it\n", id)
				leave(v)
				says(t, container, "/tmp/lines", fmt.Sprintf("line %d of it\n", id))
			})
		}
		for _, transport := range transports {
			for way, leave := range ways {
				v := d.visit(config, transport, "/api/v1/namespaces/default/pods/once/attach", query(onceName(transport, way), "false", ""))
				v.sends(t, 100_000)
				leave(v)
			}
		}
		d.eventually("each stdin that ends once has got all", func() error {
			p, err := d.CoreV1().Pods("default").Get(t.Context(), "once", metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, s := range p.Status.ContainerStatuses {
				if s.State.Terminated == nil || strings.TrimSpace(s.State.Terminated.Message) != "100000" {
					return fmt.Errorf("%s: %+v", s.Name, s.State)
				}
			}
			return nil
		})
		sent := 100_000
		for _, transport := range []string{"SPDY", "SPDY/3.1+portforward.k8s.io", "v4.channel.k8s.io"} {
			for way, leave := range ways {
				t.Run(fmt.Sprintf("port-forward over %s, %s", transport, way), func(t *testing.T) {
					if transport != "v4.channel.k8s.io" && way == "goodbye" {
						t.Skip("it resets the streams, which discards what is in them")
					}
					says(t, "c", "/proc/net/tcp /proc/net/tcp6", " 0A ") // it listens
					sent++
					v := d.forward(config, transport, pod+"/portforward")
					v.sends(t, sent)
					leave(v)
					says(t, "c", "/tmp/forwarded", fmt.Sprintf("%d\n", sent))
				})
			}
		}
		t.Run("reset", func(t *testing.T) {
			for i, transport := range transports {
				v := exec(t, transport, false, fmt.Sprintf("echo ready; cat >/tmp/reset%d; echo end >>/tmp/reset%[1]d", i))
				v.hears(t, "ready")
				_ = v.raw.SetLinger(0)
				v.raw.Close()
				says(t, "c", fmt.Sprintf("/tmp/reset%d", i), "end\n")
			}
		})
		t.Run("files", func(t *testing.T) { d.putFilesAndLeave(config, pod, says) })
		t.Run("kubectl that is killed", func(t *testing.T) {
			for name, program := range d.programs(t) {
				id := strings.ReplaceAll(name, " ", "-")
				c := talk(t, program("exec", "-i", "p", "-c", "c", "--", "sh", "-c", "echo ready; cat >/tmp/"+id+"; echo end >>/tmp/"+id))
				c.hears("ready")
				c.says("words\n")
				says(t, "c", "/tmp/"+id, "words\n")
				c.kill()
				says(t, "c", "/tmp/"+id, "words\nend\n")
			}
		})
		t.Run("Python", func(t *testing.T) { d.leaveInPython(says) })
		d.eventually("nobody waits for those who have left", func() error {
			goroutines := d.jobctl("get", "--raw", "/debug/pprof/goroutine?debug=1")
			for _, name := range []string{"serveStreams", "PortForward", "watchHangUp", "containerd.part"} {
				if strings.Contains(goroutines, name) {
					return fmt.Errorf("goroutines:\n%s", goroutines)
				}
			}
			return nil
		})
		// The daemon itself may leave.
		for how, end := range map[string]func(){
			"killed":  d.kill,
			"stopped": func() { _ = d.process.Process.Signal(syscall.SIGTERM); <-d.ended },
		} {
			v := exec(t, "SPDY", false, "echo ready; cat >/tmp/"+how+"; seq 100000; echo end >>/tmp/"+how)
			v.hears(t, "ready")
			_, _ = io.WriteString(v.input, "words\n")
			says(t, "c", "/tmp/"+how, "words\n")
			end()
			d.serve()
			says(t, "c", "/tmp/"+how, "words\nend\n")
		}
		d.jobctl("delete", "pod", "p", "once")
	}, "--listen", freePort(t))
}

// inside runs a command in a container of the pod p, and returns what it says.
func (d *daemon) inside(config *rest.Config, container string, command ...string) string {
	query := url.Values{"container": {container}, "command": command, "stdout": {"true"}}
	to, err := url.Parse(config.Host + "/api/v1/namespaces/default/pods/p/exec?" + query.Encode())
	if err != nil {
		d.t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(config, http.MethodPost, to)
	if err != nil {
		d.t.Fatal(err)
	}
	var out strings.Builder
	_ = executor.StreamWithContext(d.t.Context(), remotecommand.StreamOptions{Stdout: &out}) // it may not be there yet
	return out.String()
}

func onceName(transport, way string) string {
	return strings.NewReplacer(".", "-", " ", "-", ",", "").Replace(strings.ToLower(transport + "-" + way))
}

// forward opens a connection to a port of a pod.
func (d *daemon) forward(config *rest.Config, transport, path string) *visitor {
	d.t.Helper()
	if transport == "v4.channel.k8s.io" {
		raw, socket := d.webSocket(config, path+"?ports=8000", transport)
		return &visitor{raw: raw, goodbye: farewell(socket), input: channel{socket, 0}}
	}
	var raw *net.TCPConn
	var conn httpstream.Connection
	if transport == "SPDY" {
		raw, conn = d.upgrade(config, path, "portforward.k8s.io")
	} else {
		var socket *websocket.Conn
		raw, socket = d.webSocket(config, path, transport)
		var err error
		if conn, err = spdy.NewClientConnection(tunneling.NewTunnelingConnection("client", socket)); err != nil {
			d.t.Fatal(err)
		}
	}
	v := &visitor{raw: raw, goodbye: func() { conn.Close() }}
	for _, kind := range []string{corev1.StreamTypeError, corev1.StreamTypeData} {
		stream, err := conn.CreateStream(http.Header{corev1.StreamType: {kind}, corev1.PortHeader: {"8000"}, corev1.PortForwardRequestIDHeader: {"1"}})
		if err != nil {
			d.t.Fatal(err)
		}
		v.input, v.halfClose = stream, func() { stream.Close() }
	}
	return v
}

// putFilesAndLeave sends an archive into a container, and does not wait for the answer.
func (d *daemon) putFilesAndLeave(config *rest.Config, pod string, says func(t *testing.T, container, file, want string)) {
	t := d.t
	for name, leave := range map[string]func(*net.TCPConn){"fin": func(c *net.TCPConn) { c.CloseWrite() }, "close": func(c *net.TCPConn) { c.Close() }} {
		content := strings.Repeat("0123456789abcde\n", 1<<15) + name
		var archive bytes.Buffer
		pack := tar.NewWriter(&archive)
		if err := errors.Join(
			pack.WriteHeader(&tar.Header{Name: ".", Mode: 0o600, Size: int64(len(content))}), second(pack.Write([]byte(content))),
			pack.Close(),
		); err != nil {
			t.Fatal(err)
		}
		raw, conn := d.dial(config)
		r, _ := http.NewRequest(http.MethodPut, config.Host+pod+"/files?container=c&path=/tmp/put-"+name, &archive)
		r.Header = http.Header{"Authorization": {"Bearer " + config.BearerToken}, "Content-Type": {"application/x-tar"}}
		if err := r.Write(conn); err != nil {
			t.Fatal(err)
		}
		leave(raw)
		says(t, "c", "/tmp/put-"+name, content[len(content)-20:])
	}
}

func second(_ int, err error) error { return err }

// leaveInPython does what Ansible's k8s_cp does.
func (d *daemon) leaveInPython(says func(t *testing.T, container, file, want string)) {
	t := d.t
	script := `
from kubernetes import client, config
from kubernetes.stream import stream
config.load_kube_config()
def start(file, input):
    r = stream(client.CoreV1Api().connect_get_namespaced_pod_exec, 'p', 'default', container='c', command=['sh', '-c', 'cat >%s; sleep 0.3; echo end >>%s' % (file, file)],
               stderr=True, stdout=True, stdin=True, tty=False, _preload_content=False)
    if input: r.write_stdin(input)
    r.close()
start('/tmp/python', 'hello\n')
start('/tmp/python-big', 'x' * 3000000)
start('/tmp/python-nothing', '')
`
	cmd := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", script)
	cmd.Env = append(cmd.Environ(), "KUBECONFIG="+d.root+"/kubeconfig")
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "No module named") {
			t.Skip("needs python3-kubernetes")
		}
		t.Fatalf("%v\n%s", err, out)
	}
	says(t, "c", "/tmp/python", "hello\nend\n")
	says(t, "c", "/tmp/python-nothing", "end\n")
	says(t, "c", "/tmp/python-big", strings.Repeat("x", 3000000)+"end\n")
}
