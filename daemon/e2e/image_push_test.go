package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jobd/jobd/testdata/images"
	"github.com/jobd/jobd/testdata/registry"
)

// An image that is only here is pushed with the credentials of whoever asks for it, and another jobd runs it.
func TestImagePush(t *testing.T) {
	t.Parallel()
	needContainers(t)
	r := registry.Start(t, registry.Options{User: "alice", Password: "secret"})
	d := start(t, "--network", "none")
	d.importImage(busyboxWith(t, "pushed").(images.Image).As("trainer:1"), nil)

	config := t.TempDir()
	auth := base64.StdEncoding.EncodeToString([]byte("alice:secret"))
	if err := os.WriteFile(filepath.Join(config, "config.json"), fmt.Appendf(nil, `{"auths": {%q: {"auth": %q}}}`, r.Host, auth), 0o600); err != nil {
		t.Fatal(err)
	}
	push := func(config string, args ...string) (string, int) {
		cmd := d.jobctlWith(append([]string{"image", "push"}, args...)...)
		cmd.Env = append(cmd.Env, "DOCKER_CONFIG="+config)
		out, said, code := exitOf(t, cmd, "")
		return out + said, code
	}
	to := r.Host + "/team/trainer:1"
	if out, code := push(t.TempDir(), "trainer:1", to); code != 1 || !strings.HasPrefix(out, "error: push "+to+": ") || strings.Count(out, "\n") != 1 {
		t.Errorf("without credentials: exit code %d: %s", code, out)
	}
	if out, code := push(config, "none:1", to); code != 1 || out != "error: there is no image docker.io/library/none:1 here\n" {
		t.Errorf("what is not here: exit code %d: %s", code, out)
	}
	out, code := push(config, "trainer:1", to)
	if code != 0 || !strings.HasPrefix(out, "pushed "+to+" (") {
		t.Fatalf("exit code %d: %s", code, out)
	}
	// A tag that is the registry's own is pushed under its name.
	d.jobctl("image", "tag", "trainer:1", r.Host+"/team/trainer:2")
	if out, code := push(config, r.Host+"/team/trainer:2"); code != 0 {
		t.Errorf("exit code %d: %s", code, out)
	}

	other := start(t, "--network", "none")
	if err := os.MkdirAll(filepath.Join(other.root, "docker"), 0o700); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(config, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(other.root, "docker", "config.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, image := range map[string]string{"one": to, "two": r.Host + "/team/trainer:2"} {
		other.apply(catJob(name, image, "Always"))
		other.complete(name)
		if out := other.jobctl("logs", "jobs/"+name); strings.TrimSpace(out) != "pushed" {
			t.Errorf("%s prints %q", image, out)
		}
	}
}

// Images go that nothing needs: no pod, no Job that waits and no CronJob, and those that were imported only if that is said.
func TestImagePrune(t *testing.T) {
	t.Parallel()
	needContainers(t)
	r := registry.Start(t, registry.Options{})
	d := start(t, "--network", "none")
	refs := map[string]string{}
	for _, name := range []string{"runs", "waits", "cron", "done", "idle"} {
		refs[name], _ = r.Push(t, busyboxWith(t, name), name+":1")
		d.jobctl("image", "pull", refs[name])
	}
	d.apply(onePod("runs", refs["runs"], "sleep 1000"))
	d.podUntil("runs", "runs", runs)
	d.apply(strings.Replace(catJob("waits", refs["waits"], "IfNotPresent"), "spec:\n", "spec:\n  suspend: true\n", 1))
	d.apply(catJob("done", refs["done"], "IfNotPresent"))
	d.complete("done")
	d.apply(fmt.Sprintf(`{apiVersion: batch/v1, kind: CronJob, metadata: {name: cron}, spec: {schedule: "0 0 1 1 *", jobTemplate: {spec: {template: {spec: {
restartPolicy: Never, containers: [{name: c, image: %q}]}}}}}}`, refs["cron"]))

	prune := func(args ...string) (names []string, all string) {
		all = d.jobctl(append([]string{"image", "prune"}, args...)...)
		for _, line := range strings.Split(all, "\n") {
			if f := strings.Fields(strings.ReplaceAll(line, "would remove", "removed")); len(f) == 3 && f[0] == "removed" {
				names = append(names, f[1])
			}
		}
		slices.Sort(names)
		return names, all
	}
	want := []string{refs["done"], refs["idle"]}
	slices.Sort(want)
	if names, out := prune("--dry-run"); !slices.Equal(names, want) || !strings.Contains(out, "would free ") ||
		!strings.Contains(out, "kept 1 that nothing needs, but no registry could bring back") {
		t.Errorf("dry run:\n%s", out)
	}
	if list := d.jobctl("image", "list"); !strings.Contains(list, refs["idle"]) {
		t.Errorf("a dry run has removed something:\n%s", list)
	}
	if names, out := prune(); !slices.Equal(names, want) || !strings.Contains(out, "freed ") {
		t.Errorf("%s", out)
	}
	if names, out := prune("--all"); !slices.Equal(names, []string{"docker.io/library/busybox:1.36"}) {
		t.Errorf("%s", out)
	}
	list := d.jobctl("image", "list")
	for name, ref := range refs {
		if gone := name == "done" || name == "idle"; strings.Contains(list, ref) == gone {
			t.Errorf("%s:\n%s", name, list)
		}
	}
	// What is left still works.
	d.jobctl("patch", "job", "waits", "-p", `{"spec": {"suspend": false}}`)
	d.complete("waits")
}
