package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
