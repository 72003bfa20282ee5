package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubectl/pkg/cmd/cp"
	"k8s.io/kubectl/pkg/cmd/exec"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/util/podcmd"
	utilexec "k8s.io/utils/exec"

	"github.com/jobd/jobd/internal/printable"
)

// extendCopy lets kubectl's cp command copy files from and to claims: jobctl cp pvc/NAME:PATH LOCAL, and back. No pod is
// needed for that. A cluster has no such request, and kubectl takes pvc there for a namespace. It also copies from and to
// containers in which kubectl cannot start tar, because they have ended or their image has none.
func extendCopy(root *cobra.Command, f cmdutil.Factory, streams genericiooptions.IOStreams) {
	command, _, err := root.Find([]string{"cp"})
	if err != nil {
		panic(err) // kubectl has always had it
	}
	run := command.Run
	for _, out := range []*io.Writer{&streams.Out, &streams.ErrOut} { // which tar in a pod has too, and that is whatever its owner put there
		if printers.IsTerminal(*out) {
			*out = printable.Writer(*out)
		}
	}
	command.Example += `

  # Copy the directory /model of the claim checkpoints to ./model, without a pod
  jobctl cp pvc/checkpoints:/model ./model

  # Copy ./data into the claim input
  jobctl cp ./data pvc/input:/data

  # Copy a file out of a pod that has ended, with the annotation jobd.dev/keep-files
  jobctl cp train-0-abcde:/out/result.json .

  # Neither does a running pod need tar in its image
  jobctl cp ./weights train-0-abcde:/tmp/weights`
	command.Run = func(cmd *cobra.Command, args []string) {
		if len(args) != 2 {
			run(cmd, args)
			return
		}
		args = []string{withoutKind(args[0]), withoutKind(args[1])}
		from, isFrom := claimPath(args[0])
		to, isTo := claimPath(args[1])
		c := filesCopy{IOStreams: streams}
		switch {
		case !isFrom && !isTo:
			done, err := c.withoutTar(contextOf(cmd), f, args, cmdutil.GetFlagString(cmd, "container"))
			cmdutil.CheckErr(err)
			if !done {
				cmdutil.CheckErr(copyWithTar(f, cmd, args, streams))
			}
		case isFrom && isTo:
			cmdutil.CheckErr(errors.New("one of the two has to be a local path"))
		default:
			cmdutil.CheckErr(c.connect(f))
			if isFrom {
				cmdutil.CheckErr(c.download(contextOf(cmd), from, args[1]))
			} else {
				cmdutil.CheckErr(c.upload(contextOf(cmd), args[0], to))
			}
		}
	}
}

// remote is a path in a claim or in a container.
type remote struct{ resource, namespace, name, container, path string }

// withoutTar copies from a container that has ended, or from or to one that runs without tar. It reports whether it has:
// everything else is left to kubectl.
func (c *filesCopy) withoutTar(ctx context.Context, f cmdutil.Factory, args []string, container string) (bool, error) {
	from, err := podPath(f, args[0])
	if err != nil {
		return false, err
	}
	to, err := podPath(f, args[1])
	if err != nil {
		return false, err
	}
	at := from
	if at == nil {
		at = to
	}
	if at == nil || from != nil && to != nil {
		return false, nil
	}
	client, err := f.KubernetesClientSet()
	if err != nil {
		return false, err
	}
	pod, err := client.CoreV1().Pods(at.namespace).Get(ctx, at.name, metav1.GetOptions{})
	if err != nil {
		return false, nil // kubectl says what is wrong
	}
	if at.container = container; container == "" {
		main, err := podcmd.FindOrDefaultContainerByName(pod, "", true, io.Discard)
		if err != nil {
			return false, err
		}
		at.container = main.Name
	}
	switch pod.Status.Phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		if from == nil {
			return false, nil
		}
	case corev1.PodRunning:
		if has, err := hasTar(ctx, f, client, at); err != nil || has {
			return false, err
		}
	default:
		return false, nil
	}
	if err := c.connect(f); err != nil {
		return false, err
	}
	c.namespace = at.namespace
	if from != nil {
		return true, c.download(ctx, *from, args[1])
	}
	return true, c.upload(ctx, args[0], *to)
}

// hasTar reports whether tar can be started in a running container.
func hasTar(ctx context.Context, f cmdutil.Factory, client *kubernetes.Clientset, at *remote) (bool, error) {
	config, err := f.ToRESTConfig()
	if err != nil {
		return false, err
	}
	try := exec.ExecOptions{
		StreamOptions: exec.StreamOptions{
			IOStreams: genericiooptions.IOStreams{Out: io.Discard, ErrOut: io.Discard},
			Namespace: at.namespace, PodName: at.name, ContainerName: at.container, Quiet: true,
		},
		Command: []string{"tar", "--version"}, Config: config, PodClient: client.CoreV1(), Executor: &exec.DefaultRemoteExecutor{},
	}
	err = try.Run()
	var ended utilexec.ExitError
	return err == nil || errors.As(err, &ended), nil // any other error comes again if it is not about tar
}

// copyWithTar is kubectl's cp, which does not wait for tar to end when it copies from a pod: without that, its failure is a matter
// of luck.
func copyWithTar(f cmdutil.Factory, cmd *cobra.Command, args []string, streams genericiooptions.IOStreams) error {
	o := cp.NewCopyOptions(streams)
	o.Container = cmdutil.GetFlagString(cmd, "container")
	o.NoPreserve = cmdutil.GetFlagBool(cmd, "no-preserve")
	o.MaxTries = cmdutil.GetFlagInt(cmd, "retries")
	if err := o.Complete(f, cmd, args); err != nil {
		return err
	}
	// kubectl takes the name for a pattern afterwards, and copies nothing when it matches nothing, not even itself.
	if found, err := filepath.Glob(filepath.Clean(args[0])); err == nil && len(found) == 0 {
		if _, err := os.Lstat(args[0]); err == nil {
			return fmt.Errorf("%s: the name is taken for a pattern, which matches no file: put a backslash before each of *?[", args[0])
		}
	}
	waiting := &waitingExecutor{RemoteExecutor: o.Executor, over: make(chan struct{})}
	o.Executor = waiting
	if err := o.Validate(); err != nil {
		return err
	}
	if err := o.Run(); err != nil {
		return err
	}
	return waiting.wait()
}

// waitingExecutor runs commands in containers, and knows how all of them have ended. What they write after the end of an archive
// is dropped.
type waitingExecutor struct {
	exec.RemoteExecutor
	over    chan struct{} // closed when nobody reads any more
	running sync.WaitGroup

	mu   sync.Mutex
	last error
}

func (e *waitingExecutor) Execute(
	u *url.URL, config *rest.Config, in io.Reader, out, errOut io.Writer, tty bool, sizes remotecommand.TerminalSizeQueue,
) error {
	e.running.Add(1)
	defer e.running.Done()
	u = failingPipe(u)
	if out != nil {
		read, write := io.Pipe()
		taken := make(chan struct{})
		go func(to io.Writer) {
			defer close(taken)
			_, _ = io.Copy(to, read)
			_, _ = io.Copy(io.Discard, read)
		}(out)
		go func() {
			<-e.over
			_, _ = io.Copy(io.Discard, read)
		}()
		defer func() {
			write.Close()
			select {
			case <-taken:
			case <-e.over: // it still waits for a reader
			}
		}()
		out = write
	}
	err := e.RemoteExecutor.Execute(u, config, in, out, errOut, tty, sizes)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = err
	return err
}

// failingPipe lets the pipe in which kubectl runs tar for --retries fail when tar does, with shells that can do that.
func failingPipe(u *url.URL) *url.URL {
	query := u.Query()
	command := query["command"]
	if len(command) != 3 || command[0] != "sh" || !strings.HasPrefix(command[2], "tar cf - ") {
		return u
	}
	command[2] = "(set -o pipefail) 2>/dev/null && set -o pipefail; " + command[2]
	changed := *u
	changed.RawQuery = query.Encode()
	return &changed
}

// wait waits for the commands that are still running, and returns how the last one has ended.
func (e *waitingExecutor) wait() error {
	close(e.over)
	e.running.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

// podPath parses [NAMESPACE/]POD:PATH, and returns nil for a local path.
func podPath(f cmdutil.Factory, arg string) (*remote, error) {
	name, path, ok := strings.Cut(arg, ":")
	if !ok || path == "" || name == "" || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "/") {
		return nil, nil
	}
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	if before, after, ok := strings.Cut(name, "/"); ok {
		namespace, name = before, after
	}
	return &remote{resource: "pods", namespace: namespace, name: name, path: path}, nil
}

// withoutKind takes the kind off pods/NAME:PATH, as "jobctl get pods -o name" prints it. To kubectl it is a namespace, in which there is no such pod.
func withoutKind(arg string) string {
	kind, rest, ok := strings.Cut(arg, "/")
	name, _, hasPath := strings.Cut(rest, ":")
	if ok && hasPath && name != "" && !strings.Contains(name, "/") && slices.Contains([]string{"pod", "pods", "po"}, kind) {
		return rest
	}
	return arg
}

// claimPath parses pvc/NAME:PATH.
func claimPath(arg string) (remote, bool) {
	kind, rest, ok := strings.Cut(arg, "/")
	name, path, hasPath := strings.Cut(rest, ":")
	switch kind {
	case "pvc", "persistentvolumeclaim", "persistentvolumeclaims":
		return remote{resource: "persistentvolumeclaims", name: name, path: path}, ok && hasPath && name != "" && !strings.Contains(name, "/")
	}
	return remote{}, false
}

type filesCopy struct {
	genericiooptions.IOStreams
	client    rest.Interface
	namespace string
}

func (c *filesCopy) connect(f cmdutil.Factory) (err error) {
	if c.namespace, _, err = f.ToRawKubeConfigLoader().Namespace(); err != nil {
		return err
	}
	config, err := f.ToRESTConfig()
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	config.Timeout = 0 // copying takes as long as it takes
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	c.client = clients.CoreV1().RESTClient()
	return nil
}

func (c *filesCopy) request(r *rest.Request, at remote) *rest.Request {
	r = r.Namespace(c.namespace).Resource(at.resource).Name(at.name).SubResource("files").Param("path", at.path)
	if at.container != "" {
		r.Param("container", at.container)
	}
	return r
}

// download copies a file or directory of a claim or container to a local path, as cp does from a pod: a file goes into a
// directory that exists, the content of a directory into the local one.
func (c *filesCopy) download(ctx context.Context, from remote, to string) error {
	body, err := c.request(c.client.Get(), from).Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	in := tar.NewReader(body)
	first, err := in.Next()
	if err != nil {
		return fmt.Errorf("%s: %w", from.path, err)
	}
	if first.Typeflag == tar.TypeReg {
		if info, err := os.Stat(to); err == nil && info.IsDir() {
			to = filepath.Join(to, path.Base(path.Clean("/"+from.path)))
		}
		if err := writeLocal(os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, first.FileInfo().Mode().Perm()))(in); err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, body) // to the end, so that the server does not take it for broken off
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(to) // whatever the names in the claim are, nothing beside it is written
	if err != nil {
		return err
	}
	defer root.Close()
	for {
		header, err := in.Next()
		if err == io.EOF {
			_, err = io.Copy(io.Discard, body)
			return err
		} else if err != nil {
			return err
		}
		name := filepath.Clean(header.Name)
		switch {
		case !filepath.IsLocal(name):
			err = fmt.Errorf("%q leads out of the directory", header.Name)
		case header.Typeflag == tar.TypeDir:
			err = root.MkdirAll(name, 0o755)
		case header.Typeflag == tar.TypeReg:
			if err = root.Remove(name); err == nil || errors.Is(err, fs.ErrNotExist) {
				err = writeLocal(root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, header.FileInfo().Mode().Perm()))(in)
			}
		default:
			fmt.Fprintf(c.ErrOut, "warning: skipping symlink: %q -> %q\n", name, header.Linkname)
		}
		if err != nil {
			return err
		}
	}
}

// writeLocal writes to a file that was opened.
func writeLocal(file *os.File, err error) func(io.Reader) error {
	return func(from io.Reader) error {
		if err != nil {
			return err
		}
		_, err := io.Copy(file, from)
		return errors.Join(err, file.Close())
	}
}

// upload copies a local file or directory into a claim or a running container.
func (c *filesCopy) upload(ctx context.Context, from string, to remote) error {
	if _, err := os.Stat(from); err != nil {
		return err
	}
	body, archive := io.Pipe()
	go func() { archive.CloseWithError(c.pack(archive, from)) }()
	defer body.Close()
	abs, err := filepath.Abs(from)
	if err != nil {
		return err
	}
	return c.request(c.client.Put(), to).Param("name", filepath.Base(abs)).
		SetHeader("Content-Type", "application/x-tar").Body(body).Do(ctx).Error()
}

// pack writes a local file or directory as an archive. Nothing outside of it is read, although the directory may be somebody else's than
// whoever copies it, who puts a symlink in the place of a file meanwhile.
func (c *filesCopy) pack(to io.Writer, from string) error {
	out := tar.NewWriter(to)
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return err
	}
	top := from
	if info, err := os.Lstat(from); err != nil {
		return err
	} else if !info.IsDir() {
		top = filepath.Dir(from)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() && !info.IsDir() {
			fmt.Fprintf(c.ErrOut, "warning: skipping %s, which is neither a file nor a directory\n", name)
			return nil
		}
		header, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		if header.Name = filepath.ToSlash(rel); info.IsDir() {
			header.Name += "/"
		}
		if err := out.WriteHeader(header); err != nil || info.IsDir() {
			return err
		}
		inRoot, err := filepath.Rel(top, name)
		if err != nil {
			return err
		}
		file, err := root.Open(inRoot)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(out, file)
		return err
	}); err != nil {
		return err
	}
	return out.Close()
}
