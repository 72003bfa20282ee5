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
