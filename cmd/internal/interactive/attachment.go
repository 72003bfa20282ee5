package interactive

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubectl/pkg/cmd/attach"
	kubeterm "k8s.io/kubectl/pkg/util/term"
	"k8s.io/utils/ptr"
)

const (
	// earlierLines is how many lines of what the container has printed before are shown.
	earlierLines = 200
	// settles is for how long nothing may come of a connection before what was printed earlier is read: the server begins to send soon
	// after the connection is there.
	settles = 200 * time.Millisecond
	// maxHeld is how many bytes are held back until that was read.
	maxHeld = 1 << 20
)

// attachment is a connection to a container.
type attachment struct {
	keys    *keys
	restore func()
	once    sync.Once
	joined  chan struct{} // closed when what was printed before is shown
}

// ended is how a connection has ended.
type ended struct {
	err error
	// left: the keys were typed that leave the session. hangup: the terminal is gone.
	left, hangup bool
}

// begin connects to a container of the pod. Its end comes as an event.
func (r *running) begin(c *corev1.Container) *attachment {
	a := &attachment{keys: r.keys.begin(), restore: func() {}, joined: make(chan struct{})}
	terminal := kubeterm.TTY{In: r.In, Out: r.Out, Raw: c.TTY}
	var sizes remotecommand.TerminalSizeQueue
	if c.TTY {
		a.restore = makeRaw(r.In)
		if size := terminal.GetSize(); size != nil {
			larger := *size // a change of the size lets full-screen programs draw themselves again
			larger.Width++
			sizes = sizeQueue{terminal.MonitorSize(&larger, size)}
		}
	}
	out := &joiner{to: r.Out, first: make(chan struct{})}
	pod, options := r.pod, &corev1.PodAttachOptions{Container: c.Name, Stdin: c.Stdin, Stdout: true, Stderr: !c.TTY, TTY: c.TTY}
	url := r.Client.Kubernetes.CoreV1().RESTClient().Post().Resource("pods").Name(pod.Name).Namespace(pod.Namespace).SubResource("attach").
		VersionedParams(options, scheme.ParameterCodec).URL()
	var in io.Reader
	if c.Stdin {
		in = a.keys
	}
	var errOut io.Writer
	if !c.TTY {
		errOut = r.ErrOut
	}
	finished := make(chan error, 1)
	go func() {
		finished <- (&attach.DefaultRemoteAttach{}).Attach(url, r.Config, in, out, errOut, c.TTY, sizes)
	}()
	go func() {
		defer close(a.joined)
		select {
		case <-out.first:
		case <-time.After(settles):
		case <-r.ctx.Done():
		}
		out.join(r.earlier(pod, c.Name, ptr.To[int64](earlierLines)))
	}()
	go func() {
		e := &ended{}
		select {
		case e.err = <-finished:
		case <-r.keys.left:
			e.left = true
		case <-r.keys.hangup:
			e.hangup = true
		case <-r.ctx.Done():
			return
		}
		r.send(event{ended: e})
	}()
	return a
}

// sizeQueue hands the sizes of one library to another.
type sizeQueue struct{ of kubeterm.TerminalSizeQueue }

func (q sizeQueue) Next() *remotecommand.TerminalSize {
	return (*remotecommand.TerminalSize)(q.of.Next())
}

// leave gives the terminal back, and what is typed to the next attachment.
func (a *attachment) leave() {
	a.once.Do(func() {
		a.keys.end()
		a.restore()
	})
}

// earlier returns the last lines of what a container has printed so far, or all of them; nothing if that cannot be read.
func (r *running) earlier(pod *corev1.Pod, container string, tail *int64) []byte {
	ctx, stop := context.WithTimeout(r.ctx, 5*time.Second)
	defer stop()
	options := &corev1.PodLogOptions{Container: container, TailLines: tail}
	text, err := r.Client.Kubernetes.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Do(ctx).Raw()
	if err != nil {
		return nil
	}
	return text
}

// joiner holds back what comes of a connection until what was printed before is shown, which may have the beginning of it too.
type joiner struct {
	to    io.Writer
	first chan struct{} // closed when something comes

	mu     sync.Mutex
	held   bytes.Buffer
	came   bool
	joined bool
}

func (j *joiner) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.came {
		j.came = true
		close(j.first)
	}
	if j.joined {
		return j.to.Write(b)
	}
	j.held.Write(b)
	if j.held.Len() > maxHeld {
		return len(b), j.release(nil)
	}
	return len(b), nil
}

// join shows what was printed before, and what has come since.
func (j *joiner) join(before []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.release(before) // the next Write fails too
}

func (j *joiner) release(before []byte) error {
	if j.joined {
		return nil
	}
	j.joined = true
	held := j.held.Bytes()
	_, err := j.to.Write(before)
	_, failed := j.to.Write(held[overlap(before, held):])
	j.held = bytes.Buffer{}
	return cmp.Or(err, failed)
}

// overlap returns how much of the beginning of b is the end of a.
func overlap(a, b []byte) int {
	for n := min(len(a), len(b)); n > 0; n-- {
		if bytes.HasSuffix(a, b[:n]) {
			return n
		}
	}
	return 0
}
