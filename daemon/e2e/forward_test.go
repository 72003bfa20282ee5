package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/forward"
)

// forwarder is a jobd whose Jobs go to a cluster, which is another jobd behind a line that can be cut.
type forwarder struct {
	t           *testing.T
	here, there *daemon
	line        *line
	kubeconfig  string
	flags       []string
	process     *exec.Cmd
	output      *bytes.Buffer
}

// startForwarder starts both, and a forwarder with more flags.
func startForwarder(t *testing.T, daemons []string, flags ...string) *forwarder {
	t.Helper()
	here := start(t, append([]string{"--listen", freePort(t)}, daemons...)...)
	there := start(t, append([]string{"--listen", freePort(t)}, daemons...)...)
	f := forwarderTo(t, here, there.address(), there.kubeconfig(), flags...)
	f.there = there
	return f
}

// forwarderTo starts a forwarder to an API server, to which a kubeconfig leads.
func forwarderTo(t *testing.T, here *daemon, at, kubeconfig string, flags ...string) *forwarder {
	t.Helper()
	f := &forwarder{t: t, here: here, line: lineTo(t, at), flags: flags, output: &bytes.Buffer{}}
	access, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	f.kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	access = regexp.MustCompile(`https://\S+`).ReplaceAll(access, []byte("https://"+f.line.address()))
	if err := os.WriteFile(f.kubeconfig, access, 0o600); err != nil {
		t.Fatal(err)
	}
	f.begin()
	t.Cleanup(func() {
		f.kill()
		if t.Failed() {
			t.Logf("the forwarder said:\n%s", f.output)
		}
	})
	return f
}

func (f *forwarder) begin() {
	f.t.Helper()
	args := append([]string{"forward", "--cluster", "prod", "--kubeconfig", f.kubeconfig, "--socket", f.here.socket(), "--log-level", "debug"}, f.flags...)
	f.process = exec.Command(filepath.Join(bin, "jobd"), args...)
	f.process.Stdout, f.process.Stderr = f.output, f.output
	if err := f.process.Start(); err != nil {
		f.t.Fatal(err)
	}
}

// kill ends the forwarder as a crash would.
func (f *forwarder) kill() {
	_ = f.process.Process.Kill()
	_ = f.process.Wait()
}

// forwarded returns the manifest of a Job for the cluster, whose simulated pods run for so long and exit so.
func forwarded(name, duration, exit string, more ...string) string {
	return fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s, labels: {app: forwarded}}
spec:
  managedBy: clusters.jobd.dev/prod
%s  template:
    metadata: {annotations: {jobd.dev/simulate-duration: %s, jobd.dev/simulate-exit-code: %q}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: "busybox:1.36", command: ["true"]}]
`, name, strings.Join(more, ""), duration, exit)
}

// job returns a Job of a daemon; nil if there is none.
func (d *daemon) job(name string) *batchv1.Job {
	d.t.Helper()
	j, err := d.BatchV1().Jobs("default").Get(d.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return j
}

// patch changes a Job of a daemon.
func (d *daemon) patch(name, patch string) {
	d.t.Helper()
	if _, err := d.BatchV1().Jobs("default").Patch(d.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		d.t.Fatal(err)
	}
}

// remove deletes a Job of a daemon, which may wait for its finalizers.
func (d *daemon) remove(name string, policy metav1.DeletionPropagation) {
	d.t.Helper()
	if err := d.BatchV1().Jobs("default").Delete(d.t.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		d.t.Fatal(err)
	}
}

// gone waits until a daemon has no Job of a name.
func (d *daemon) gone(name string) {
	d.t.Helper()
	d.eventually("job "+name+" is gone", func() error {
		if d.job(name) != nil {
			return errors.New("it is there")
		}
		return nil
	})
}

// active waits until a Job of a daemon has so many active pods.
func (d *daemon) active(name string, n int32) *batchv1.Job {
	d.t.Helper()
	return d.until(name, fmt.Sprintf("%d active", n), func(j *batchv1.Job) bool { return j.Status.Active == n })
}

// alike waits until a Job has the same status here and there, and checks its pods.
func (f *forwarder) alike(name string) {
	f.t.Helper()
	f.here.eventually("job "+name+" has the status of the one there", func() error {
		l, r := f.here.job(name), f.there.job(name)
		if l == nil || r == nil || !equality.Semantic.DeepEqual(l.Status, r.Status) {
			return fmt.Errorf("here %+v\nthere %+v", l, r)
		}
		return nil
	})
	f.here.eventually("the pods of "+name+" are as those there", func() error {
		pods := map[string]corev1.PodPhase{}
		for _, p := range f.there.pods(name) {
			pods[p.Name] = p.Status.Phase
		}
		for _, p := range f.here.pods(name) {
			if p.Spec.NodeName != "prod" || pods[p.Name] != p.Status.Phase {
				return fmt.Errorf("pod %s of node %s is %s here, %q there", p.Name, p.Spec.NodeName, p.Status.Phase, pods[p.Name])
			}
			delete(pods, p.Name)
		}
		if len(pods) > 0 {
			return fmt.Errorf("these are not shown: %v", pods)
		}
		return nil
	})
}

// Jobs run in a cluster as they would here, whatever becomes of the forwarder and the line, or is done to them on either side.
func TestForward(t *testing.T) {
	t.Parallel()
	f := startForwarder(t, []string{"--runtime", "simulated", "--allocatable", "cpu=64"})
	for name, test := range map[string]func(*forwarder){
		"end": forwardEnd, "adopt": forwardAdopt, "removed there": forwardRemovedThere, "suspend": forwardSuspend, "change": forwardChange,
		"delete": forwardDelete, "name": forwardName, "missing": forwardMissing, "bundle": forwardBundle, "swept": forwardSwept,
		"unreachable": forwardUnreachable, "copy": forwardCopy,
	} {
		t.Run(name, func(t *testing.T) {
			mine, here, there := *f, *f.here, *f.there // the tests run one after the other, and fail by themselves
			mine.t, here.t, there.t, mine.here, mine.there = t, t, t, &here, &there
			test(&mine)
			f.process = mine.process
		})
	}
}

func forwardEnd(f *forwarder) {
	f.here.apply(forwarded("ok", "1s", "0"))
	f.here.apply(forwarded("bad", "0s", "7", "  backoffLimit: 0\n"))
	f.here.apply(forwarded("indexed", "0s", "1:3", "  completionMode: Indexed\n", "  completions: 3\n", "  backoffLimitPerIndex: 0\n"))
	f.here.complete("ok")
	f.here.failed("bad", batchv1.JobReasonBackoffLimitExceeded)
	f.here.failed("indexed", batchv1.JobReasonFailedIndexes)
	for _, name := range []string{"ok", "bad", "indexed"} {
		f.alike(name)
	}
	if out := f.here.jobctl("why", "jobs/bad"); !strings.Contains(out, "exit code 7") {
		f.t.Errorf("why:\n%s", out)
	}
	f.here.eventually("the events of the cluster", func() error {
		events := f.here.jobctl("events", "--for", "jobs/ok")
		for _, want := range []string{"Forwarded", "SuccessfulCreate", "Completed"} {
			if !strings.Contains(events, want) {
				return fmt.Errorf("no %s in\n%s", want, events)
			}
		}
		return nil
	})
	for _, p := range f.here.pods("ok") {
		f.here.eventually("the events of its pod", func() error {
			if out := f.here.jobctl("events", "--for", "pods/"+p.Name); !strings.Contains(out, "Started") || strings.Contains(out, "FailedScheduling") {
				return errors.New(out)
			}
			return nil
		})
	}
	for _, name := range []string{"ok", "bad", "indexed"} {
		f.here.remove(name, metav1.DeletePropagationBackground)
		f.here.gone(name)
		f.there.gone(name)
		if out := f.here.jobctl("history", name, "-o", "wide"); !strings.Contains(out, "clusters.jobd.dev/prod") {
			f.t.Errorf("the history of %s:\n%s", name, out)
		}
	}
}

// The forwarder ends after it has made the Job, before it could record that.
func forwardAdopt(f *forwarder) {
	f.line.set(lineRefused)
	f.here.apply(forwarded("adopted", "2s", "0"))
	l := f.here.until("adopted", "taken", func(j *batchv1.Job) bool { return clusters.RecordOf(j) != nil })
	f.kill()
	made := f.makeThere(l)
	f.line.set(lineWhole)
	f.begin()
	f.here.complete("adopted")
	f.alike("adopted")
	if r := f.there.job("adopted"); r.UID != made.UID {
		f.t.Error("it was made again")
	}
}

// makeThere makes a Job there as a forwarder does that then hears nothing of it.
func (f *forwarder) makeThere(l *batchv1.Job) *batchv1.Job {
	f.t.Helper()
	system, err := f.here.CoreV1().Namespaces().Get(f.t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	made, err := f.there.BatchV1().Jobs("default").Create(f.t.Context(), forward.Copy(l, "default", forward.Origin{Jobd: system.UID}), metav1.CreateOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	return made
}

func forwardRemovedThere(f *forwarder) {
	f.here.apply(forwarded("lost", "1h", "0"))
	f.here.active("lost", 1)
	f.there.remove("lost", metav1.DeletePropagationBackground)
	f.here.failed("lost", clusters.ReasonRemoteJobDeleted)
	if f.there.job("lost") != nil {
		f.t.Error("it was made again")
	}
	f.here.eventually("its pod is shown no more", func() error {
		if pods := f.here.pods("lost"); len(pods) > 0 {
			return errors.New(pods[0].Name)
		}
		return nil
	})
	f.here.remove("lost", metav1.DeletePropagationBackground)
	f.here.gone("lost")
}

func forwardSuspend(f *forwarder) {
	f.here.apply(forwarded("stopped", "2s", "0", "  suspend: true\n"))
	f.here.until("stopped", "suspended", func(j *batchv1.Job) bool { return condition(j, batchv1.JobSuspended) != nil })
	f.here.patch("stopped", `{"spec":{"suspend":false}}`)
	f.here.active("stopped", 1)
	f.here.patch("stopped", `{"spec":{"suspend":true}}`)
	f.here.active("stopped", 0)
	f.alike("stopped") // its pod is gone here, too
	f.here.patch("stopped", `{"spec":{"suspend":false}}`)
	f.here.complete("stopped")
	f.alike("stopped")

	// It is suspended and resumed there while the line is cut.
	f.here.apply(forwarded("missed", "3s", "0"))
	f.here.active("missed", 1)
	was := f.here.job("missed").Status.StartTime
	f.line.set(lineRefused)
	f.there.patch("missed", `{"spec":{"suspend":true}}`)
	f.there.active("missed", 0)
	time.Sleep(time.Second) // the start time has no fractions
	f.there.patch("missed", `{"spec":{"suspend":false}}`)
	f.there.active("missed", 1)
	f.line.set(lineWhole)
	f.here.complete("missed")
	f.alike("missed")
	if now := f.here.job("missed").Status.StartTime; now.Equal(was) {
		f.t.Errorf("it still has the start time %v", was)
	}

	// Kueue decides there when a Job of its queues goes on.
	f.here.apply(strings.Replace(forwarded("queued", "1h", "0"), "app: forwarded", "app: forwarded, kueue.x-k8s.io/queue-name: q", 1))
	f.here.active("queued", 1)
	f.there.patch("queued", `{"spec":{"suspend":true}}`)
	f.here.active("queued", 0)
	f.here.patch("queued", `{"spec":{"parallelism":2}}`)
	f.there.until("queued", "wider", func(j *batchv1.Job) bool { return *j.Spec.Parallelism == 2 })
	if r := f.there.job("queued"); !*r.Spec.Suspend {
		f.t.Error("it was resumed there")
	}
}

func forwardChange(f *forwarder) {
	f.here.apply(forwarded("changed", "1h", "0", "  parallelism: 1\n", "  completions: 5\n"))
	f.here.active("changed", 1)
	f.here.patch("changed", `{"spec":{"parallelism":3,"ttlSecondsAfterFinished":3600}}`)
	f.here.active("changed", 3)
	if r := f.there.job("changed"); r.Spec.TTLSecondsAfterFinished != nil {
		f.t.Error("the TTL was passed on")
	}
	f.line.set(lineRefused)
	f.here.patch("changed", `{"spec":{"activeDeadlineSeconds":1}}`)
	f.line.set(lineWhole)
	f.here.failed("changed", batchv1.JobReasonDeadlineExceeded)
	f.alike("changed")
}

func forwardDelete(f *forwarder) {
	f.here.apply(forwarded("foreground", "1h", "0"))
	f.here.active("foreground", 1)
	f.here.remove("foreground", metav1.DeletePropagationForeground)
	f.here.gone("foreground")
	if f.there.job("foreground") != nil {
		f.t.Error("it is still there")
	}

	for _, how := range []cut{lineRefused, lineStalled} {
		f.here.apply(forwarded("over", "2s", "0"))
		f.here.apply(forwarded("unwanted", "1h", "0"))
		f.here.active("over", 1)
		f.here.active("unwanted", 1)
		f.line.set(how)
		f.here.remove("unwanted", metav1.DeletePropagationBackground)
		f.there.complete("over")
		if f.here.job("unwanted") == nil || condition(f.here.job("over"), batchv1.JobComplete) != nil {
			f.t.Errorf("%s, and the forwarder knows what is there", how)
		}
		f.line.set(lineWhole)
		f.here.complete("over")
		f.alike("over")
		f.here.gone("unwanted")
		f.there.gone("unwanted")
		f.here.remove("over", metav1.DeletePropagationBackground)
		f.here.gone("over")
		f.there.gone("over")
	}

	// For a Job that ends by itself after its end the TTL counts here.
	f.here.apply(forwarded("ttl", "0s", "0", "  ttlSecondsAfterFinished: 1\n"))
	f.here.gone("ttl")
	f.there.gone("ttl")
}

func forwardName(f *forwarder) {
	// Somebody else has the name, and gives it free.
	f.there.apply(strings.Replace(forwarded("taken", "1h", "0"), "  managedBy: clusters.jobd.dev/prod\n", "", 1))
	f.here.apply(forwarded("taken", "1s", "0"))
	f.here.until("taken", "not forwarded", func(j *batchv1.Job) bool {
		c := condition(j, clusters.NotForwarded)
		return c != nil && c.Reason == clusters.ReasonNameTaken
	})
	if out := strings.Join(strings.Fields(f.here.jobctl("why", "jobs/taken")), " "); !strings.Contains(out, "another Job default/taken") {
		f.t.Errorf("why:\n%s", out)
	}
	f.there.remove("taken", metav1.DeletePropagationBackground)
	f.here.complete("taken")
	f.alike("taken")

	// The same name again, as soon as it is free here.
	before := f.there.job("taken").UID
	f.here.jobctl("delete", "jobs/taken")
	f.here.apply(forwarded("taken", "1s", "7", "  backoffLimit: 0\n"))
	f.here.failed("taken", batchv1.JobReasonBackoffLimitExceeded)
	f.alike("taken")
	if f.there.job("taken").UID == before {
		f.t.Error("it is the same Job")
	}
}

func forwardMissing(f *forwarder) {
	f.here.apply(forwarded("needy", "1s", "0") + "      volumes: [{name: v, persistentVolumeClaim: {claimName: data}}, {name: h, hostPath: {path: /srv}}]\n")
	f.here.until("needy", "refused", func(j *batchv1.Job) bool {
		c := condition(j, clusters.NotForwarded)
		return c != nil && c.Reason == clusters.ReasonRefused && strings.Contains(c.Message, "there is no PersistentVolumeClaim data in prod") &&
			strings.Contains(c.Message, "/srv is of this machine")
	})
	if f.there.job("needy") != nil {
		f.t.Error("it was made")
	}
	f.here.apply(forwarded("account", "1s", "0") + "      serviceAccountName: runner\n")
	f.here.until("account", "refused", func(j *batchv1.Job) bool { return condition(j, clusters.NotForwarded) != nil })
	f.there.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: runner}\n")
	f.here.complete("account")
	f.alike("account")
}

func forwardBundle(f *forwarder) {
	f.here.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n---\n" +
		"apiVersion: v1\nkind: Secret\nmetadata: {name: token}\nstringData: {a: b}\n---\n" + forwarded("bundled", "1s", "0") +
		"      volumes: [{name: v, configMap: {name: settings}}]\n")
	f.here.complete("bundled")
	copies := func() (all []corev1.ConfigMap) {
		list, err := f.there.CoreV1().ConfigMaps("default").List(f.t.Context(), metav1.ListOptions{LabelSelector: clusters.OriginLabel})
		if err != nil {
			f.t.Fatal(err)
		}
		return list.Items
	}
	all := copies()
	if len(all) != 1 || all[0].Data["a"] != "b" || !strings.HasPrefix(all[0].Name, "settings-") || len(all[0].OwnerReferences) != 1 ||
		all[0].Name != f.there.job("bundled").Spec.Template.Spec.Volumes[0].ConfigMap.Name {
		f.t.Errorf("copies: %+v", all)
	}
	f.here.remove("bundled", metav1.DeletePropagationBackground)
	f.there.eventually("no copy is left", func() error {
		if left := copies(); len(left) > 0 {
			return fmt.Errorf("%+v", left)
		}
		return nil
	})
	// Secrets do not leave the machine.
	f.here.apply(forwarded("secretive", "1s", "0") + "      volumes: [{name: v, secret: {secretName: token}}]\n")
	f.here.until("secretive", "refused", func(j *batchv1.Job) bool {
		c := condition(j, clusters.NotForwarded)
		return c != nil && strings.Contains(c.Message, "--secrets")
	})
	f.kill()
	f.flags = append(f.flags, "--secrets")
	f.begin()
	f.here.complete("secretive")
	f.alike("secretive")
}

// Somebody takes off the finalizer while no forwarder is there.
func forwardSwept(f *forwarder) {
	f.here.apply(forwarded("stray", "1h", "0"))
	f.here.active("stray", 1)
	f.kill()
	f.here.remove("stray", metav1.DeletePropagationBackground)
	f.here.patch("stray", `{"metadata":{"finalizers":null}}`)
	f.here.gone("stray")
	f.begin()
	f.there.gone("stray")
}

func forwardUnreachable(f *forwarder) {
	f.here.apply(forwarded("far", "1h", "0"))
	f.here.active("far", 1)
	f.line.set(lineRefused)
	f.here.until("far", "unreachable", func(j *batchv1.Job) bool { return condition(j, clusters.Unreachable) != nil && j.Status.Active == 1 })
	if out := f.here.jobctl("why", "jobs/far"); !strings.Contains(out, "does not answer since") || !strings.Contains(out, "goes on") {
		f.t.Errorf("why:\n%s", out)
	}
	f.line.set(lineWhole)
	f.here.until("far", "reachable", func(j *batchv1.Job) bool { return condition(j, clusters.Unreachable) == nil })
	f.alike("far")
}

// elsewhere waits until a Job says that what is seen there says nothing of it.
func (f *forwarder) elsewhere(name, reason string) {
	f.t.Helper()
	f.here.until(name, reason, func(j *batchv1.Job) bool {
		c := condition(j, clusters.Unreachable)
		return c != nil && c.Reason == reason
	})
}

// Another machine, which has the same Jobs, has made the Job there; then it is said to be this one's.
func forwardCopy(f *forwarder) {
	f.here.apply(forwarded("copied", "1h", "0"))
	record := clusters.RecordOf(f.here.active("copied", 1))
	record.Machine = "another"
	f.here.jobctl("annotate", "--overwrite", "jobs/copied", clusters.RecordAnnotation+"="+record.Annotation())
	f.elsewhere("copied", clusters.ReasonOtherMachine)
	f.here.patch("copied", `{"spec":{"suspend":true}}`)
	if out := f.here.jobctl("why", "jobs/copied"); !strings.Contains(out, "for another machine") || !strings.Contains(out, clusters.RecordAnnotation+"-") {
		f.t.Errorf("why:\n%s", out)
	}
	if r := f.there.job("copied"); *r.Spec.Suspend {
		f.t.Error("it was changed there")
	}
	f.here.jobctl("annotate", "jobs/copied", clusters.RecordAnnotation+"-")
	f.there.active("copied", 0)
	f.here.until("copied", "this machine's", func(j *batchv1.Job) bool { return condition(j, clusters.Unreachable) == nil })
	f.alike("copied")
}

// A forwarder that is led to another cluster ends nothing, makes nothing again, and lets nothing go.
func TestForwardToAnotherCluster(t *testing.T) {
	t.Parallel()
	f := startForwarder(t, []string{"--runtime", "simulated"})
	for _, name := range []string{"far", "leaving"} {
		f.here.apply(forwarded(name, "1h", "0"))
		f.here.active(name, 1)
	}
	f.here.apply(forwarded("unsure", "1h", "0") + "      serviceAccountName: runner\n")
	l := f.here.until("unsure", "refused", func(j *batchv1.Job) bool { return condition(j, clusters.NotForwarded) != nil })
	former := f.kubeconfig
	f.kill()
	f.makeThere(l) // whose answer is lost
	f.here.remove("leaving", metav1.DeletePropagationBackground)
	other := start(t, "--runtime", "simulated", "--listen", freePort(t))
	other.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: runner}\n")
	f.kubeconfig = other.kubeconfig()
	f.begin()
	for _, name := range []string{"far", "leaving", "unsure"} {
		f.elsewhere(name, clusters.ReasonOtherCluster)
		if other.job(name) != nil {
			t.Errorf("%s was made in the other cluster", name)
		}
	}
	f.kill()
	f.there.apply("apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: runner}\n")
	f.kubeconfig = former
	f.begin()
	f.here.gone("leaving")
	f.there.gone("leaving")
	for _, name := range []string{"far", "unsure"} {
		f.here.until(name, "in its cluster", func(j *batchv1.Job) bool { return condition(j, clusters.Unreachable) == nil && j.Status.Active == 1 })
		f.alike(name)
	}
}

// What could not be told from what is here is refused at once.
func TestForwardNames(t *testing.T) {
	t.Parallel()
	d, other := start(t, "--runtime", "simulated", "--listen", freePort(t)), start(t, "--runtime", "simulated", "--listen", freePort(t))
	for name, c := range map[string]struct{ cluster, kubeconfig, want string }{
		"the node":    {d.node(), other.kubeconfig(), "is the name of a node"},
		"jobd itself": {"prod", d.kubeconfig(), "leads to this jobd itself"},
		"no name":     {"Prod", other.kubeconfig(), "--cluster"},
	} {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "jobd"), "forward", "--cluster", c.cluster,
			"--kubeconfig", c.kubeconfig, "--socket", d.socket())
		if _, errOut, code := exitOf(t, cmd, ""); code == 0 || !strings.Contains(errOut, c.want) {
			t.Errorf("%s: %d\n%s", name, code, errOut)
		}
	}
}

// Nobody forwards: that is said when a Job comes, while it waits, and when it is deleted.
func TestNoForwarder(t *testing.T) {
	t.Parallel()
	d := start(t, "--runtime", "simulated")
	const none = "no forwarder serves the cluster prod now (jobd forward --cluster prod): "
	apply := d.jobctlTo("/dev/null", "apply", "-f", "-")
	if _, errOut, code := exitOf(t, apply, forwarded("alone", "1s", "0")); code != 0 || !strings.Contains(errOut, none+"the Job waits") {
		t.Errorf("apply: %d\n%s", code, errOut)
	}
	if out := d.jobctl("why", "jobs/alone"); !strings.Contains(out, "no forwarder for the cluster prod") {
		t.Errorf("why:\n%s", out)
	}
	d.patch("alone", `{"metadata":{"finalizers":["`+clusters.Finalizer+`"]}}`)
	remove := d.jobctlTo("/dev/null", "delete", "jobs/alone", "--wait=false")
	if _, errOut, code := exitOf(t, remove, ""); code != 0 || !strings.Contains(errOut, none+"job alone stays until one has removed it there") {
		t.Errorf("delete: %d\n%s", code, errOut)
	}
	if out := d.jobctl("why", "jobs/alone"); !strings.Contains(out, "removed it in the cluster prod") || !strings.Contains(out, "finalizers") {
		t.Errorf("why:\n%s", out)
	}
	d.patch("alone", `{"metadata":{"finalizers":null}}`)
	d.gone("alone")
}

// What containers print in the cluster is shown and kept here as if they had printed it here, and so are their exit codes.
func TestForwardLogs(t *testing.T) {
	t.Parallel()
	f := startForwarder(t, []string{"--network", "none"})
	inCluster := func(manifest string) string {
		return strings.Replace(manifest, "spec:\n", "spec:\n  managedBy: clusters.jobd.dev/prod\n", 1)
	}
	submit := f.here.jobctlTo("/dev/null", "submit", "--progress=plain", "-f", "-")
	out, errOut, code := exitOf(t, submit, inCluster(jobOf("x", "echo one; sleep 2; echo two; exit 5")))
	if code != 5 || out != "one\ntwo\n" {
		t.Errorf("submit: %d, %q\n%s", code, out, errOut)
	}
	f.alike("x")
	if out := f.here.jobctl("logs", "jobs/x"); out != "one\ntwo\n" {
		t.Errorf("the log of the Job: %q", out)
	}
	if out := f.here.jobctl("why", "jobs/x"); !strings.Contains(out, "exit code 5") {
		t.Errorf("why:\n%s", out)
	}

	// While the forwarder is killed and the line is cut, no line is lost, and none comes twice.
	f.here.apply(inCluster(jobOf("counts", "i=0; while [ $i -lt 80 ]; do i=$((i+1)); echo $i; sleep 0.1; done; printf end")))
	f.here.active("counts", 1)
	for _, how := range []cut{lineWhole, lineRefused, lineWhole} {
		time.Sleep(time.Second)
		f.line.set(how)
		f.kill()
		f.begin()
		time.Sleep(time.Second)
		f.line.set(lineWhole)
	}
	f.here.complete("counts")
	var want strings.Builder
	for i := range 80 {
		fmt.Fprintln(&want, i+1)
	}
	want.WriteString("end")
	if out := f.here.jobctl("logs", "jobs/counts"); strings.TrimSpace(out) != want.String() {
		t.Errorf("the log is %q", out)
	}

	// Each attempt of a container has a log, and those of pods that are gone are kept.
	restarts := jobOf("again", "echo x >> /v/n; echo attempt $(wc -l < /v/n); [ $(wc -l < /v/n) -ge 2 ]",
		"        volumeMounts: [{name: v, mountPath: /v}]\n      volumes: [{name: v, emptyDir: {}}]\n")
	restarts = strings.NewReplacer("restartPolicy: Never", "restartPolicy: OnFailure", "backoffLimit: 0", "backoffLimit: 3",
		"- {name: c, image: \"busybox:1.36\", command: ", "- name: c\n        image: busybox:1.36\n        command: ", "]\"]}\n", "]\"]\n").Replace(restarts)
	f.here.apply(inCluster(restarts))
	f.here.complete("again")
	if out := f.here.jobctl("logs", "jobs/again", "--all-restarts"); !strings.Contains(out, "attempt 1") || !strings.Contains(out, "attempt 2") {
		t.Errorf("the logs of both attempts: %q", out)
	}
	for _, p := range f.here.pods("x") {
		f.here.jobctl("delete", "pod", p.Name)
	}
	if out := f.here.jobctl("logs", "jobs/x"); out != "one\ntwo\n" {
		t.Errorf("after its pod is gone: %q", out)
	}
}

// byPlugin has a program give the credentials of a kubeconfig, as those of clouds do.
func byPlugin(t *testing.T, kubeconfig string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "credentials")
	for _, user := range config.AuthInfos {
		answer, err := json.Marshal(map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
			"status": map[string]string{"clientCertificateData": string(user.ClientCertificateData), "clientKeyData": string(user.ClientKeyData)},
		})
		if err == nil {
			err = os.WriteFile(program, []byte("#!/bin/sh\ncat <<'E'\n"+string(answer)+"\nE\n"), 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		user.ClientCertificateData, user.ClientKeyData = nil, nil
		user.Exec = &clientcmdapi.ExecConfig{
			Command: program, APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
		}
	}
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// With the rights that the documentation gives it, on either side, a forwarder does all that it is to do, and in other namespaces nothing.
func TestForwardWithFewRights(t *testing.T) {
	t.Parallel()
	f := startForwarder(t, []string{"--runtime", "simulated", "--allocatable", "cpu=64"})
	f.kill()
	rights := fromPage(t, "clusters.md", "TestForwardWithFewRights applies this")
	f.there.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}\n---\n" + strings.Replace(rights, "kind: ClusterRole\nmetadata: {",
		"kind: Role\nmetadata: {namespace: team-a, ", 1))
	f.there.jobctl("create", "rolebinding", "forwarder", "-n", "team-a", "--role", "jobd-forwarder", "--user", "forwarder")
	f.here.jobctl("create", "clusterrolebinding", "forwarder", "--clusterrole", "jobd:forwarder", "--user", "forwarder")
	account := func(d *daemon, at string) (file string) {
		text := regexp.MustCompile(`https://\S+`).ReplaceAllString(d.jobctl("kubeconfig", "--user", "forwarder"), "https://"+at)
		file = filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	f.kubeconfig = byPlugin(t, account(f.there, f.line.address()))
	f.flags = []string{"--jobd-kubeconfig", account(f.here, f.here.address()), "--namespace", "default=team-a"}
	f.begin()
	f.here.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n---\n" + forwarded("humble", "1s", "0") +
		"      volumes: [{name: v, configMap: {name: settings}}]\n")
	f.here.complete("humble")
	if pods := f.here.pods("humble"); len(pods) != 1 || pods[0].Status.Phase != corev1.PodSucceeded {
		t.Errorf("its pods: %+v", pods)
	}
	f.here.remove("humble", metav1.DeletePropagationBackground)
	f.here.gone("humble")
	f.there.eventually("it is gone there", func() error {
		list, err := f.there.BatchV1().Jobs("").List(t.Context(), metav1.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("%d are there", len(list.Items))
		}
		return err
	})
	f.here.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: other}\n---\n" +
		strings.Replace(forwarded("elsewhere", "1s", "0"), "metadata: {", "metadata: {namespace: other, ", 1))
	f.here.eventually("it says that nobody takes it", func() error {
		if out := f.here.jobctl("why", "jobs/elsewhere", "-n", "other"); !strings.Contains(strings.Join(strings.Fields(out), " "), "has not taken it") {
			return errors.New(out)
		}
		return nil
	})
	if f.kill(); strings.Contains(f.output.String(), "forbidden") {
		t.Error("it lacks rights")
	}
}

// The forwarder is killed, and the line is cut, again and again: each Job ends once, none is lost, and nothing is left.
// JOBD_FORWARDED sets how many Jobs there are.
func TestForwardKilledAnywhere(t *testing.T) {
	t.Parallel()
	n, err := strconv.Atoi(os.Getenv("JOBD_FORWARDED"))
	if err != nil {
		n = 30
	}
	f := startForwarder(t, []string{"--runtime", "simulated", "--allocatable", "cpu=64"})
	applied := make(chan error, 1)
	go func() {
		_, err := f.here.try("jobctl", []byte(manyForwarded("m", n)), "apply", "-f", "-", "--validate=false")
		applied <- err
	}()
	f.shootAt(n)
	if err := <-applied; err != nil {
		t.Fatalf("apply: %v", err)
	}
	f.here.eventually("all have ended", func() error {
		if got := f.ended(); got != n {
			return fmt.Errorf("%d of %d", got, n)
		}
		return nil
	})
	for i := range n {
		name := fmt.Sprintf("m%d", i)
		f.alike(name)
		j := f.here.job(name)
		if failed := condition(j, batchv1.JobFailed); (failed != nil) != (i%5 == 0) || failed != nil && failed.Reason != batchv1.JobReasonBackoffLimitExceeded {
			t.Errorf("%s: %+v", name, j.Status.Conditions)
		}
		if pods := f.there.pods(name); len(pods) != 1 {
			t.Errorf("%s has had %d pods", name, len(pods))
		}
	}
	background := metav1.DeletePropagationBackground
	if err := f.here.BatchV1().Jobs("default").DeleteCollection(t.Context(), metav1.DeleteOptions{PropagationPolicy: &background},
		metav1.ListOptions{LabelSelector: "app=forwarded"}); err != nil {
		t.Fatal(err)
	}
	for what, d := range map[string]*daemon{"here": f.here, "there": f.there} {
		d.eventually("nothing is left "+what, func() error {
			jobs, err := d.BatchV1().Jobs("").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			pods, err := d.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			if err == nil && len(jobs.Items)+len(pods.Items) > 0 {
				err = fmt.Errorf("%d Jobs, %d pods", len(jobs.Items), len(pods.Items))
			}
			return err
		})
	}
}

// manyForwarded returns n Jobs that run for some seconds. Every fifth fails.
func manyForwarded(name string, n int) string {
	var all strings.Builder
	for i := range n {
		exit := "0"
		if i%5 == 0 {
			exit = "1"
		}
		all.WriteString("---\n" + forwarded(fmt.Sprint(name, i), fmt.Sprintf("%dms", 500+rand.IntN(5000)), exit, "  backoffLimit: 0\n"))
	}
	return all.String()
}

// ended returns how many Jobs that are forwarded have ended here.
func (f *forwarder) ended() (n int) {
	f.t.Helper()
	list, err := f.here.BatchV1().Jobs("default").List(f.t.Context(), metav1.ListOptions{LabelSelector: "app=forwarded"})
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range list.Items {
		if j := &list.Items[i]; condition(j, batchv1.JobComplete) != nil || condition(j, batchv1.JobFailed) != nil {
			n++
		}
	}
	return n
}

// shootAt kills the forwarder and cuts the line again and again, until most of n Jobs have ended.
func (f *forwarder) shootAt(n int) {
	f.t.Helper()
	shots := 0
	for ; f.ended() < n*9/10 && shots < 6+n/20; shots++ {
		time.Sleep(time.Duration(rand.IntN(1500)) * time.Millisecond)
		f.line.set([]cut{lineWhole, lineRefused, lineStalled}[rand.IntN(3)])
		f.kill()
		f.begin()
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
		f.line.set(lineWhole)
	}
	f.t.Logf("shot at %d times", shots)
}

// A Job that finds no room here in time runs in the cluster, once; one that does stays here. The daemon is killed while it goes.
func TestOverflow(t *testing.T) {
	t.Parallel()
	f := startForwarder(t, []string{"--runtime", "simulated", "--allocatable", "cpu=2"})
	overflow := func(name, cpu, after string) string {
		m := strings.ReplaceAll(forwarded(name, "1s", "0"), clusters.Manager("prod"), clusters.OverflowManager("prod"))
		m = strings.Replace(m, "labels: {app: forwarded}", "annotations: {"+clusters.OverflowAfterAnnotation+": "+after+"}", 1)
		return strings.Replace(m, `command: ["true"]`, `command: ["true"], resources: {requests: {cpu: "`+cpu+`"}}`, 1)
	}
	f.here.apply(overflow("room", "1", "1s"))
	f.here.jobctl("wait", "--for=condition=Complete", "jobs/room", "--timeout=4m")
	f.here.apply(strings.Replace(jobOf("busy", "true"), "  template:\n", "  template:\n    metadata: {annotations: {jobd.dev/simulate-duration: 10h}}\n", 1))
	f.here.running("busy", 1)
	f.here.jobctl("taint", "nodes", f.here.node(), "full=yes:NoSchedule")
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprint("over", i))
		f.here.apply(overflow(names[i], "1", fmt.Sprintf("%dms", 2000+200*i)))
	}
	f.here.apply(overflow("later", "1", "10h"))
	if out := f.here.jobctl("why", "jobs/later"); !strings.Contains(out, "it goes to the cluster prod") {
		t.Errorf("why says %s", out)
	}
	time.Sleep(2500 * time.Millisecond)
	f.here.kill()
	f.here.serve()
	for _, name := range names {
		f.here.jobctl("wait", "--for=condition=Complete", "jobs/"+name, "--timeout=4m")
		f.alike(name)
		if pods := f.here.pods(name); len(pods) != 1 {
			t.Errorf("%s has %d pods", name, len(pods))
		}
		if out := f.here.jobctl("history", name, "-o", "wide"); !strings.Contains(out, clusters.OverflowManager("prod")) {
			t.Errorf("the history of %s:\n%s", name, out)
		}
	}
	if f.there.job("room") != nil || f.there.job("later") != nil {
		t.Error("a Job that had room here, or still waits, is there too")
	}
}
