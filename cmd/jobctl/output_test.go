package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Characters that YAML does not have, or that deceive the eye, and how JSON escapes them.
const (
	odd        = "a\x7fb\u009b31mc\u202ed"
	oddEscaped = `a\u007fb\u009b31mc\u202ed`
)

func oddJob(name string) string {
	return fmt.Sprintf(`{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": %q, "annotations": {"text": "`+oddEscaped+`"}},
		"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i",
		"env": [{"name": "TEXT", "value": "`+oddEscaped+`"}]}]}}}}`, name)
}

// TestYAMLOfAnyString: what others write into an object keeps nobody from having it as YAML, which says the same as JSON.
func TestYAMLOfAnyString(t *testing.T) {
	d := startDaemon(t)
	for _, name := range []string{"one", "two"} {
		if out, code := d.jobctl(t, oddJob(name), "create", "-f", "-"); code != 0 {
			t.Fatal(out)
		}
	}
	d.event(t)
	for i, args := range []string{
		"get jobs/one", "get jobs", "get jobs/one jobs/two", "get jobs/none jobs/one --ignore-not-found", "events --for jobs/one", "get events",
		"annotate jobs/one x=y --overwrite", "label jobs/one x=y --overwrite", "create job x --image=i --dry-run=client",
		"patch jobs/one -p {} --dry-run=server", "--namespace default get jobs/one", "create -f - --dry-run=client", "apply -f - --dry-run=server",
	} {
		objects := map[string][]any{}
		in := ""
		if strings.Contains(args, "-f -") {
			in = oddJob("three") + "\n---\n" + oddJob("four")
		}
		formats := []string{"-o=yaml", "-oyaml", "--output=yaml"}
		if i > 0 {
			formats = formats[i%3 : i%3+1] // each command is a process, and all read their flags alike
		}
		for _, format := range append([]string{"-o=json"}, formats...) {
			out, code := d.jobctl(t, in, append(strings.Fields(args), format)...)
			if code != 0 {
				t.Fatalf("%s %s: %d %s", args, format, code, out)
			}
			if isJSON := strings.HasPrefix(out, "{"); isJSON != (format == "-o=json") {
				t.Errorf("%s %s: %s", args, format, out)
			}
			decoder := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(out), 4096)
			for {
				var object any
				if err := decoder.Decode(&object); err == io.EOF {
					break
				} else if err != nil {
					t.Fatalf("%s %s: %v in %s", args, format, err, out)
				}
				objects[format] = append(objects[format], withoutChanges(object))
			}
			if !reflect.DeepEqual(objects[format], objects["-o=json"]) {
				t.Errorf("%s: as JSON %v, with %s %v", args, objects["-o=json"], format, objects[format])
			}
		}
	}
}

// Kubectl's edit writes YAML for an editor by itself; it can do so as JSON.
func TestEditOfAnyString(t *testing.T) {
	d := startDaemon(t)
	if out, code := d.jobctl(t, oddJob("one"), "create", "-f", "-"); code != 0 {
		t.Fatal(out)
	}
	if out, code := d.jobctl(t, "", "edit", "jobs/one"); code == 0 || !strings.Contains(out, "jobctl edit takes -o json") {
		t.Errorf("as YAML: %d %s", code, out)
	}
	t.Setenv("KUBE_EDITOR", `sed -i 's/"parallelism": 1/"parallelism": 2/'`)
	if out, code := d.jobctl(t, "", "edit", "jobs/one", "-o", "json"); code != 0 {
		t.Errorf("as JSON: %d %s", code, out)
	}
	out, _ := d.jobctl(t, "", "get", "jobs/one", "-o", "jsonpath={.spec.parallelism}{.metadata.annotations.text}")
	if out != "2"+odd {
		t.Errorf("it has become %q", out)
	}
}

// withoutChanges takes out what differs between two equal requests.
func withoutChanges(object any) any {
	switch object := object.(type) {
	case map[string]any:
		for name := range object {
			if name == "resourceVersion" || name == "uid" || name == "creationTimestamp" || strings.HasSuffix(name, "controller-uid") {
				delete(object, name)
			}
			withoutChanges(object[name])
		}
	case []any:
		for _, one := range object {
			withoutChanges(one)
		}
	}
	return object
}

// event makes an event that says what nobody should.
func (d *daemon) event(t *testing.T) {
	t.Helper()
	event := `{"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}, "type": "Normal", "reason": "Odd",
		"message": "` + oddEscaped + `", "involvedObject": {"apiVersion": "batch/v1", "kind": "Job", "name": "one", "namespace": "default"},
		"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"}`
	if out, code := d.jobctl(t, event, "create", "-f", "-"); code != 0 {
		t.Fatal(out)
	}
}

// TestTablesOnATerminal: what others write deceives nobody who looks at a terminal. Programs get it as it is.
func TestTablesOnATerminal(t *testing.T) {
	d := startDaemon(t)
	if out, code := d.jobctl(t, oddJob("one"), "create", "-f", "-"); code != 0 {
		t.Fatal(out)
	}
	d.event(t)
	const clean = "a\uFFFDb\uFFFD31mc\uFFFDd"
	for _, c := range []struct{ args, terminal, pipe string }{
		{"events", clean, odd},
		{"get events", clean, clean}, // the server's table, which is for people
		{"get ev -o wide", clean, clean},
		{"describe jobs/one", clean, odd},
		{"annotate jobs/one --list", clean, odd},
		{"set env jobs/one --list", clean, odd},
		{"get events -o jsonpath={.items[*].message}", clean, odd},
		{"get events -o custom-columns=M:.message", clean, odd},
		{"patch jobs/one -p {} -o jsonpath={.metadata.annotations.text}", clean, odd},
		{"wait jobs/one --for=create -o jsonpath={.metadata.annotations.text}", clean, odd},
		{"get events -o json", odd, odd},
		{"get --raw /api/v1/namespaces/default/events", odd, odd},
		{"get events -o yaml", `a\x7Fb\x9B31mc` + "\u202ed", `a\x7Fb\x9B31mc` + "\u202ed"},
	} {
		if out := d.onTerminal(t, strings.Fields(c.args)...); !strings.Contains(out, c.terminal) {
			t.Errorf("%s on a terminal: %q", c.args, out)
		}
		if out, _ := d.jobctl(t, "", strings.Fields(c.args)...); !strings.Contains(out, c.pipe) {
			t.Errorf("%s: %q", c.args, out)
		}
	}
}

// onTerminal runs jobctl with a terminal as its standard output, and returns what that shows.
func (d *daemon) onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("needs terminals:", err)
	}
	defer screen.Close()
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(filepath.Join("/dev/pts", fmt.Sprint(n)), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("needs terminals:", err)
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "JOBCTL_TEST_RUN=1", "HOME="+d.home, "JOBD_SOCKET="+d.socket)
	var errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = tty, &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	shown, _ := io.ReadAll(screen) // which fails once nobody has the terminal any more
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %v %s", args, err, errOut.String())
	}
	return string(shown)
}

// Objects become YAML, in whatever pieces they come, and anything else stays as it is.
func TestYAMLWriter(t *testing.T) {
	for in, want := range map[string]string{
		"":                                "",
		`{"a": 1}`:                        "a: 1\n",
		"{\"a\": 1}\n\n {\"b\": \"}\"}\n": "a: 1\n---\nb: '}'\n",
		"job.batch/x created\n":           "job.batch/x created\n",
	} {
		for size := 1; size <= len(in)+1; size++ {
			if strings.HasPrefix(in, "job") && size < len(in) {
				continue // a piece of it
			}
			var out bytes.Buffer
			w := &yamlWriter{to: &out}
			for rest := []byte(in); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				if n, err := w.Write(rest[:min(size, len(rest))]); n != min(size, len(rest)) || err != nil {
					t.Fatal(n, err)
				}
			}
			if out.String() != want {
				t.Errorf("%q in pieces of %d: %q, want %q", in, size, out.String(), want)
			}
		}
	}
}
