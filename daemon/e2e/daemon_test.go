package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/testdata/images"
)

// patience is how long a test waits for what must happen. It is not a measure of speed: the machine may be busy.
// JOBD_E2E_PATIENCE sets it on an emulated machine.
var patience = func() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("JOBD_E2E_PATIENCE")); err == nil {
		return d
	}
	return 4 * time.Minute
}()

// patiently is the flag of commands that wait, for as long as a test does.
var patiently = "--timeout=" + patience.String()

// bin is the directory of the programs under test: what `make build` has made.
var bin = os.Getenv("JOBD_E2E")

// runtimeFlags choose the OCI runtime where a test does not: JOBD_E2E_RUNTIME, or jobd's own choice.
func runtimeFlags() []string {
	if name := os.Getenv("JOBD_E2E_RUNTIME"); name != "" {
		return []string{"--oci-runtime", name}
	}
	return nil
}

// userNamespaceFlags choose which pods have user namespaces where a test does not: JOBD_E2E_USER_NAMESPACES, or jobd's
// own choice.
func userNamespaceFlags(flags []string) []string {
	mode := os.Getenv("JOBD_E2E_USER_NAMESPACES")
	if mode == "" || slices.Contains(flags, "--user-namespaces") || slices.Contains(flags, "host") { // --network host
		return nil
	}
	return []string{"--user-namespaces", mode}
}

// needContainers skips a test where containers cannot be run.
func needContainers(t *testing.T) {
	t.Helper()
	if bin == "" {
		t.Skip("needs the built programs: make e2e")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := exec.LookPath("crun"); err != nil {
		if _, err := exec.LookPath("runc"); err != nil {
			t.Skip("needs crun or runc")
		}
	}
}

// needKubectl returns the machine's kubectl, or builds the module's where there is none.
func needKubectl(t *testing.T) string {
	t.Helper()
	needContainers(t)
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path
	}
	if out, err := buildKubectl(); err != nil {
		t.Fatalf("build kubectl: %v\n%s", err, out)
	}
	return filepath.Join(bin, "kubectl")
}

var buildKubectl = sync.OnceValues(func() ([]byte, error) {
	return exec.Command("go", "build", "-o", filepath.Join(bin, "kubectl"), "github.com/jobd/jobd/testdata/kubectl").CombinedOutput()
})

// daemon is a jobd with a root of its own.
type daemon struct {
	t           *testing.T
	root, state string
	flags       []string
	build       string   // the directory of the jobd to run
	env         []string // of jobd, in addition to the test's own
	access      string   // the kubeconfig of programs that are not to have the administrator's
	process     *exec.Cmd
	ended       chan struct{} // closed when the process has ended
	output      *bytes.Buffer
	*kubernetes.Clientset
}

// start runs a jobd that is cleaned up when the test ends, whatever became of it. It has the image busybox:1.36.
func start(t *testing.T, flags ...string) *daemon {
	t.Helper()
	return startIn(t, "/var/tmp", flags...)
}

// startIn is start with the root below the given directory.
func startIn(t *testing.T, dir string, flags ...string) *daemon {
	t.Helper()
	needContainers(t)
	d := &daemon{t: t, flags: flags, build: bin}
	d.begin(dir)
	return d
}

// begin creates the directories of a daemon, its root below dir, and starts it.
func (d *daemon) begin(dir string) {
	t := d.t
	t.Helper()
	d.output = &bytes.Buffer{}
	var err error
	if d.root, err = os.MkdirTemp(dir, "jobd-e2e."); err != nil {
		t.Fatal(err)
	}
	if d.state, err = os.MkdirTemp("/run", "jobd-e2e."); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(d.state, 0o711); err != nil { // the users of pods pass through it
		t.Fatal(err)
	}
	t.Cleanup(d.clean)
	d.serve()
	if !slices.Contains(d.flags, "simulated") { // then there are no images
		d.importImage(images.Busybox("docker.io/library/busybox:1.36"))
	}
}

// importImage imports an image into the daemon through `jobctl image import -`.
func (d *daemon) importImage(image images.Image, err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := images.WriteDocker(&archive, image); err != nil {
		d.t.Fatal(err)
	}
	if out, err := d.try("jobctl", archive.Bytes(), "image", "import", "-"); err != nil {
		d.t.Fatalf("image import: %v\n%s", err, out)
	}
}

func (d *daemon) socket() string { return filepath.Join(d.state, "jobd.sock") }

// serve starts the process and waits until it answers.
func (d *daemon) serve() {
	d.t.Helper()
	d.launch()
	d.eventually("the daemon answers", func() error {
		select {
		case <-d.ended:
			d.t.Fatalf("jobd has ended:\n%s", d.output)
		default:
		}
		return d.ready()
	})
}

// launch starts the process.
func (d *daemon) launch() {
	d.t.Helper()
	args := slices.Concat([]string{"serve", "--root", d.root, "--state", d.state}, runtimeFlags(), userNamespaceFlags(d.flags), d.flags)
	d.process = exec.Command(filepath.Join(d.build, "jobd"), args...)
	d.process.Env = append(os.Environ(), d.env...)
	d.process.Stdout, d.process.Stderr = d.output, d.output
	d.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.process.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.ended = make(chan struct{})
	go func() {
		defer close(d.ended)
		_ = d.process.Wait()
	}()
	client, err := kubernetes.NewForConfig(d.client())
	if err != nil {
		d.t.Fatal(err)
	}
	d.Clientset = client
}

// client returns the configuration of a client on the daemon's socket.
func (d *daemon) client() *rest.Config {
	return &rest.Config{
		Host: "http://jobd",
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", d.socket())
		},
		QPS:            -1,
		WarningHandler: rest.NoWarnings{}, // the tests of warnings read them from the answers
	}
}

// ready returns an error unless the daemon answers.
func (d *daemon) ready() error {
	return d.RESTClient().Get().AbsPath("/readyz").Do(d.t.Context()).Error()
}

// kill ends the daemon as a crash would.
func (d *daemon) kill() {
	d.t.Helper()
	if err := d.process.Process.Kill(); err != nil {
		d.t.Fatal(err)
	}
	<-d.ended
}

// clean ends the daemon and its containers, and checks that nothing is left on the host.
func (d *daemon) clean() {
	if d.Clientset != nil && !d.t.Skipped() {
		d.eventsAreOnThePage()
	}
	_ = d.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.t.Error("jobd did not end after SIGTERM")
		_ = d.process.Process.Kill()
		<-d.ended // until then it holds the directories, which would be left behind
	}
	out, err := exec.Command(filepath.Join(bin, "jobd"), "clean", "--purge", "--yes", "--root", d.root, "--state", d.state).CombinedOutput()
	if err != nil {
		d.t.Errorf("jobd clean: %v\n%s", err, out)
	}
	for what, left := range leftOnHost(d.root, d.state, d.output.String()) {
		d.t.Errorf("left on the host: %s: %s", what, left)
	}
	if d.t.Failed() {
		d.t.Logf("jobd said:\n%s", d.output)
	}
}

// leftOnHost finds directories, mounts, loop and network devices, tables, and processes of a daemon that was cleaned up.
func leftOnHost(root, state, output string) map[string]string {
	left := map[string]string{}
	for _, dir := range []string{root, state} {
		if entries, err := os.ReadDir(dir); err == nil {
			left["directory"] = fmt.Sprint(dir, " with ", entries)
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, root) || strings.Contains(line, state) {
			left["mount"] = line
		}
	}
	for device, file := range loopDevices() {
		if strings.HasPrefix(file, root) {
			left["loop device"] = device + " of " + file
		}
	}
	for _, what := range networkOnHost(root, output) {
		left["network"] = what
	}
	cmdlines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range cmdlines {
		cmdline, _ := os.ReadFile(path)
		if bytes.Contains(cmdline, []byte(state)) {
			left["process"] = path + " " + string(bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '}))
		}
	}
	return left
}

// jobctl runs jobctl and returns its output; it must succeed.
func (d *daemon) jobctl(args ...string) string {
	d.t.Helper()
	out, err := d.try("jobctl", nil, args...)
	if err != nil {
		d.t.Fatalf("jobctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// try runs one of the programs and returns all that it prints.
func (d *daemon) try(program string, input []byte, args ...string) (string, error) {
	// A command that waits says itself what has not come.
	ctx, cancel := context.WithTimeout(d.t.Context(), patience+10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, program), args...)
	cmd.Env = append(os.Environ(), "JOBD_SOCKET="+d.socket(), "HOME="+d.t.TempDir())
	cmd.Stdin = bytes.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// apply applies manifests to the daemon.
func (d *daemon) apply(manifest string) {
	d.t.Helper()
	args := []string{"apply", "-f", "-"}
	if os.Getenv("JOBD_E2E_PATIENCE") != "" {
		args = append(args, "--validate=false") // an emulated machine takes longer over the schemas than a client waits
	}
	if out, err := d.try("jobctl", []byte(manifest), args...); err != nil {
		d.t.Fatalf("apply: %v\n%s", err, out)
	}
}

// eventually waits until something is so.
func (d *daemon) eventually(what string, is func() error) {
	d.t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); {
		asked := time.Now()
		if err = is(); err == nil {
			return
		}
		// Most run a jobctl to find out: asking takes at most half of the time, and leaves the rest to what is waited for.
		time.Sleep(min(max(20*time.Millisecond, time.Since(asked)), 500*time.Millisecond))
	}
	d.t.Fatalf("%s: not within %v: %v\njobd said:\n%s", what, patience, err, d.output)
}

// until waits until a Job is as a test wants it, and returns it.
func (d *daemon) until(name, what string, is func(*batchv1.Job) bool) *batchv1.Job {
	d.t.Helper()
	var job *batchv1.Job
	d.eventually("job "+name+": "+what, func() (err error) {
		if job, err = d.BatchV1().Jobs("default").Get(d.t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		if !is(job) {
			status, _ := yaml.Marshal(job.Status)
			return errors.New(string(status))
		}
		return nil
	})
	return job
}

// finished waits for the end of a Job.
func (d *daemon) finished(name string) *batchv1.Job {
	d.t.Helper()
	return d.until(name, "finished", func(j *batchv1.Job) bool {
		return condition(j, batchv1.JobComplete) != nil || condition(j, batchv1.JobFailed) != nil
	})
}

// complete waits for the end of a Job that must succeed.
func (d *daemon) complete(name string) *batchv1.Job {
	d.t.Helper()
	job := d.finished(name)
	if c := condition(job, batchv1.JobFailed); c != nil {
		d.t.Fatalf("job %s has failed: %s: %s", name, c.Reason, c.Message)
	}
	return job
}

// failed waits for the end of a Job that must fail, for the given reason.
func (d *daemon) failed(name, reason string) *batchv1.Job {
	d.t.Helper()
	job := d.finished(name)
	if c := condition(job, batchv1.JobFailed); c == nil || c.Reason != reason {
		d.t.Fatalf("job %s: conditions %+v, want Failed with reason %s", name, job.Status.Conditions, reason)
	}
	return job
}

func condition(j *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range j.Status.Conditions {
		if c := &j.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// pods returns the pods of a Job.
func (d *daemon) pods(job string) []corev1.Pod {
	d.t.Helper()
	list, err := d.CoreV1().Pods("default").List(d.t.Context(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job})
	if err != nil {
		d.t.Fatal(err)
	}
	return list.Items
}

// running waits until n pods of a Job run, and returns them.
func (d *daemon) running(job string, n int) []corev1.Pod {
	d.t.Helper()
	var running []corev1.Pod
	d.eventually(fmt.Sprintf("%d pods of %s run", n, job), func() error {
		running = nil
		for _, p := range d.pods(job) {
			if p.Status.Phase == corev1.PodRunning {
				running = append(running, p)
			}
		}
		if len(running) != n {
			return fmt.Errorf("%d do", len(running))
		}
		return nil
	})
	return running
}
