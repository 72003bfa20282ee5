package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/forward"
)

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
	if out := f.here.jobctl("why", "jobs/far"); !strings.Contains(out, "has not answered since") || !strings.Contains(out, "goes on") {
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
