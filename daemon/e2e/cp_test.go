package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/batch"
)

// Files out of a finished pod.
func TestFilesOutOfAFinishedPod(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	script := `mkdir /out; echo 42 >/out/result.json; ln -s /out/result.json /out/absolute; ln -s result.json /out/link; echo in a volume >/e/f; rm /etc/passwd; exit 3`
	keeping := func(name, keep, emptyDir string) string {
		return jobManifest{
			name: name, spec: "backoffLimit: 0", podMetadata: "annotations: {jobd.dev/keep-files: " + keep + "}",
			pod:       "volumes: [{name: e, emptyDir: {" + emptyDir + "}}, {name: h, hostPath: {path: /etc}}]",
			container: "volumeMounts: [{name: e, mountPath: /e}, {name: h, mountPath: /h}]", program: []string{"sh", "-c", script},
		}.String()
	}
	d.apply(keeping("kept", "1h", ""))
	d.apply(jobOf("plain", "echo 42 >/result"))
	d.failed("kept", "BackoffLimitExceeded")
	d.complete("plain")
	name := d.pods("kept")[0].Name
	dir := t.TempDir()
	copied := func(from, want string) {
		t.Helper()
		to := filepath.Join(dir, "copy")
		os.Remove(to)
		d.jobctl("cp", name+":"+from, to)
		if content, err := os.ReadFile(to); err != nil || string(content) != want {
			t.Errorf("%s: %v, %q", from, err, content)
		}
	}
	refused := func(want string, args ...string) {
		t.Helper()
		if out, err := d.try("jobctl", nil, args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%v: %v, %s", args, err, out)
		}
	}
	all := func() {
		t.Helper()
		copied("/out/result.json", "42\n")
		copied("out/link", "42\n")
		copied("/e/f", "in a volume\n")
		copied("default/../e/f", "in a volume\n")
	}
	all()
	d.jobctl("cp", "default/"+name+":/out", filepath.Join(dir, "tree"))
	if content, err := os.ReadFile(filepath.Join(dir, "tree", "result.json")); err != nil || string(content) != "42\n" {
		t.Errorf("a directory: %v, %q", err, content)
	}
	refused("only the files of emptyDirs and claims", "cp", name+":/h/passwd", dir+"/x")
	refused("no such file", "cp", name+":/etc/passwd", dir+"/x")
	refused("no such file", "cp", name+":/nosuch", dir+"/x")
	refused("leads out of", "cp", name+":/out/absolute", dir+"/x")
	refused("jobd.dev/keep-files", "cp", d.pods("plain")[0].Name+":/result", dir+"/x")
	d.kill()
	d.serve()
	all()
	if out, _ := d.try(
		"jobctl", nil, "auth", "can-i", "get", "pods", "--subresource", "files", "--as", "me", "--as-group", "jobd:role:view",
	); strings.TrimSpace(out) != "no" {
		t.Errorf("those who may only look may copy: %s", out)
	}
	out, err := d.try("jobctl", []byte(keeping("bad", "soon", "")), "apply", "-f", "-")
	if want := `spec.template.annotations[jobd.dev/keep-files]: Invalid value: "soon": must be a duration`; err == nil || !strings.Contains(out, want) {
		t.Errorf("%v, %s", err, out)
	}
	out, err = d.try("jobctl", []byte(keeping("bad", "1h", "medium: Memory")), "apply", "-f", "-")
	if want := "files cannot be kept of a pod with an emptyDir whose medium is memory"; err == nil || !strings.Contains(out, want) {
		t.Errorf("%v, %s", err, out)
	}
	// A retry is not in the way, and with the pod its files go.
	d.jobctl("retry", "jobs/kept")
	d.eventually("the second pod has failed", func() error {
		for _, p := range d.pods("kept") {
			if batch.PodAttempt(p.Annotations) == 2 && p.Status.Phase == corev1.PodFailed {
				return nil
			}
		}
		return os.ErrNotExist
	})
	copied("/out/result.json", "42\n")
	d.jobctl("delete", "pod", name)
	d.eventually("its files are gone", func() error {
		if left, err := filepath.Glob(filepath.Join(d.root, "pods", "*")); err != nil || len(left) != 1 { // of the second attempt
			return fmt.Errorf("left: %v %v", left, err)
		}
		return nil
	})
}

// The image of a running pod needs no tar either, and what is copied is what the container's user may read and write.
func TestFilesOfAPodWithoutTar(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	for name, users := range map[string]string{"plain": "", "mapped": ", hostUsers: false"} {
		d.apply(fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {restartPolicy: Never%s, terminationGracePeriodSeconds: 0,
securityContext: {runAsUser: 1000, runAsGroup: 1000}, volumes: [{name: e, emptyDir: {}}, {name: m, emptyDir: {medium: Memory}}],
containers: [{name: c, image: "busybox:1.36", command: [/bin/sleep, "1000"], env: [{name: PATH, value: /nosuch}], workingDir: /e,
  volumeMounts: [{name: e, mountPath: /e}, {name: m, mountPath: /e/m}]}]}}`, name, users))
	}
	for _, name := range []string{"plain", "mapped"} {
		d.jobctl("wait", "--for=condition=Ready", "pods/"+name, "--timeout="+patience.String())
		dir := t.TempDir()
		local := filepath.Join(dir, "tree", "deep", "file")
		if err := os.MkdirAll(filepath.Dir(local), 0o755); err != nil {
			t.Fatal(err)
		}
		content := strings.Repeat("content\n", 1<<16)
		if err := os.WriteFile(local, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		same := func(from string) {
			t.Helper()
			to := filepath.Join(dir, "copy")
			os.Remove(to)
			d.jobctl("cp", name+":"+from, to)
			if got, err := os.ReadFile(to); err != nil || string(got) != content {
				t.Errorf("%s: %s: %v, %d bytes", name, from, err, len(got))
			}
		}
		for to, at := range map[string]string{"/e/new": "/e/new", "relative": "/e/relative", "/e/m/new": "m/new", "/tmp": "/tmp/file"} {
			d.jobctl("cp", local, "default/"+name+":"+to, "-c", "c")
			if name == "plain" {
				same(at)
			}
		}
		d.jobctl("cp", filepath.Join(dir, "tree"), name+":/e")
		same("/e/tree/deep/file")
		d.jobctl("exec", name, "--", "/bin/ln", "-s", "/e/new", "/tmp/link")
		same("/tmp/link")
		d.jobctl("cp", name+":/e", filepath.Join(dir, "whole"))
		for _, of := range []string{"new", "tree/deep/file", "m/new"} {
			if got, err := os.ReadFile(filepath.Join(dir, "whole", of)); err != nil || string(got) != content {
				t.Errorf("%s: %s of the whole: %v, %d bytes", name, of, err, len(got))
			}
		}
		d.jobctl("exec", name, "--", "/bin/chmod", "0", "/e/relative")
		for want, args := range map[string][]string{
			"/e/relative: permission denied": {name + ":/e/relative", dir + "/x"},
			"/etc/x: permission denied":      {local, name + ":/etc/x"},
			"/e/nosuch: no such file":        {name + ":/e/nosuch", dir + "/x"},
		} {
			if out, err := d.try("jobctl", nil, append([]string{"cp"}, args...)...); err == nil || !strings.Contains(out, want) {
				t.Errorf("%s: %v: %v, %s", name, args, err, out)
			}
		}
	}
	if out, _ := d.try(
		"jobctl", nil, "auth", "can-i", "update", "pods", "--subresource", "files", "--as", "me", "--as-group", "jobd:role:view",
	); strings.TrimSpace(out) != "no" {
		t.Errorf("those who may only look may copy: %s", out)
	}
}

// What tar in a pod says to whoever copies from there acts on nobody's terminal: the pod's owner has put that tar there.
func TestCopiesFromAHostilePod(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none")
	const tar = `#!/bin/sh\nprintf "\\\\033]0;mine\\\\007\\\\033[31mred\\n" >&2\nexec busybox tar "$@"\n`
	d.apply(jobOf("hostile", `rm /bin/tar; printf '`+tar+`' >/bin/tar; chmod +x /bin/tar; echo 42 >/f; echo ready; sleep 1000000`))
	d.eventually("it has its own tar", func() error {
		if out, err := d.try("jobctl", nil, "logs", "jobs/hostile"); err != nil || !strings.Contains(out, "ready") {
			return fmt.Errorf("%w: %q", err, out)
		}
		return nil
	})
	name, to := d.pods("hostile")[0].Name, filepath.Join(t.TempDir(), "f")
	out, err := onTerminal(t, d.programs(t)["jobctl"]("cp", name+":/f", to)).CombinedOutput()
	if content, failed := os.ReadFile(to); err != nil || failed != nil || string(content) != "42\n" {
		t.Fatalf("%v, %v: %q, %s", err, failed, content, out)
	}
	if text := string(out); strings.ContainsAny(text, "\x1b\x07") || !strings.Contains(text, "\uFFFD]0;mine\uFFFD\uFFFD[31mred") {
		t.Errorf("the terminal gets %q", text)
	}
}
