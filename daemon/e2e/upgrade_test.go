package e2e

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// upgraded is where the databases of older versions are, and the objects that are in them.
const upgraded = "../../testdata/upgrade"

// TestUpgradeOfADatabase opens databases that older versions of jobd have left, as after a reboot with a new version:
// nothing is lost, and everything goes on. `make upgrade FROM=COMMIT RECORD=1` records one.
func TestUpgradeOfADatabase(t *testing.T) {
	t.Parallel()
	recorded, _ := filepath.Glob(filepath.Join(upgraded, "*.tar.gz"))
	if len(recorded) == 0 {
		t.Fatal("there is none")
	}
	for _, path := range recorded {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".tar.gz"), func(t *testing.T) {
			d := start(t, "--pod-backoff-base", "100ms")
			// Only the image stays.
			d.terminate()
			if out, err := d.try("jobd", nil, "clean", "--root", d.root, "--state", d.state); err != nil {
				t.Fatalf("clean: %v\n%s", err, out)
			}
			if err := os.MkdirAll(d.state, 0o711); err != nil {
				t.Fatal(err)
			}
			had := restore(t, path, d.root)
			d.serve()
			if !strings.Contains(d.output.String(), "the host went down since the last run") {
				t.Error("jobd says nothing of the reboot")
			}
			d.stillHas(had)
			d.goesOnAsBefore()

			half := d.complete("half")
			if half.Status.Succeeded != 4 || half.Status.Failed != 0 || len(d.pods("half")) != 6 {
				t.Errorf("job half has %d pods, and lost 2: %+v", len(d.pods("half")), half.Status)
			}
			bare := d.podUntil("bare", "is ready again", ready)
			if restarts := bare.Status.ContainerStatuses[0].RestartCount; restarts != 1 {
				t.Errorf("pod bare has been restarted %d times, by one reboot", restarts)
			}
			d.waitsAgain(2)
			d.eventually("the CronJob makes up for the time it has missed", func() error {
				jobs, err := d.BatchV1().Jobs("default").List(t.Context(), metav1.ListOptions{})
				for _, j := range jobs.Items {
					if strings.HasPrefix(j.Name, "ticking-") && condition(&j, batchv1.JobComplete) != nil {
						return err
					}
				}
				return errors.Join(errors.New("no Job of it is complete"), err)
			})
		})
	}
}

// TestUpgradeOfADaemon replaces a running older version by this one: its pods run on.
func TestUpgradeOfADaemon(t *testing.T) {
	older := os.Getenv("JOBD_E2E_OLDER")
	if older == "" {
		t.Skip("needs the programs of an older version: make upgrade FROM=COMMIT")
	}
	needContainers(t)
	d := &daemon{t: t, build: older}
	d.begin("/var/tmp")
	objects, err := os.ReadFile(filepath.Join(upgraded, "objects.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d.apply(string(objects))
	d.complete("done")
	d.failed("failed", batchv1.JobReasonBackoffLimitExceeded)
	d.until("half", "one pod has succeeded, two run", func(j *batchv1.Job) bool {
		return j.Status.Succeeded == 1 && j.Status.Ready != nil && *j.Status.Ready == 2
	})
	d.waitsAgain(1)
	d.podUntil("bare", "is ready", ready)
	d.eventually("pod of huge cannot be scheduled", func() error {
		if pods := d.pods("huge"); len(pods) != 1 || len(pods[0].Status.Conditions) == 0 {
			return fmt.Errorf("%+v", pods)
		}
		return nil
	})
	had, ran := d.objects(), d.containers()
	d.kill()
	if path := os.Getenv("JOBD_E2E_RECORD"); path != "" {
		record(t, d.root, had, path)
	}

	d.build = bin
	d.serve()
	d.stillHas(had)
	d.eventually("all containers are as they were", func() error {
		now := d.containers()
		for name, id := range ran {
			if now[name] != id {
				return fmt.Errorf("%s was %s, and is %s", name, id, now[name])
			}
		}
		return nil
	})
	if got := d.jobctl("exec", "bare", "--", "echo", "taken", "over"); got != "taken over\n" {
		t.Errorf("exec in a container of the older version: %q", got)
	}
	d.goesOnAsBefore()
	half := d.complete("half")
	if half.Status.Succeeded != 4 || half.Status.Failed != 0 || len(d.pods("half")) != 4 {
		t.Errorf("job half has %d pods, and lost none: %+v", len(d.pods("half")), half.Status)
	}
	for _, p := range d.pods("half") {
		if log := d.jobctl("logs", p.Name); log != "begin\nend by me\n" {
			t.Errorf("the log of %s, which two versions wrote: %q", p.Name, log)
		}
	}
	d.waitsAgain(1)
	for name, id := range ran {
		if now := d.containers(); strings.HasPrefix(name, "default/bare/") && now[name] != id {
			t.Errorf("%s was %s, and is %s", name, id, now[name])
		}
	}
}

// goesOnAsBefore checks what an older version has decided, and that what it had not finished is.
func (d *daemon) goesOnAsBefore() {
	d.t.Helper()
	done := d.complete("done")
	if done.Status.CompletedIndexes != "0,1" || done.Status.Succeeded != 2 {
		d.t.Errorf("job done: %+v", done.Status)
	}
	for _, p := range d.pods("done") {
		index := p.Labels[batchv1.JobCompletionIndexAnnotation]
		if got := d.jobctl("logs", p.Name); got != "index "+index+" is done\n" {
			d.t.Errorf("the log of %s: %q", p.Name, got)
		}
		if got := p.Status.ContainerStatuses[0].State.Terminated; got == nil || index == "1" && got.Message != "bye\n" {
			d.t.Errorf("pod %s: %+v", p.Name, p.Status)
		}
	}
	d.failed("failed", batchv1.JobReasonBackoffLimitExceeded)
	d.jobctl("patch", "configmap/gate", "-p", `{"data":{"open":""}}`)
	d.jobctl("patch", "job/suspended", "-p", `{"spec":{"suspend":false}}`)
	d.complete("suspended")
	d.jobctl("create", "job", "ticked", "--from=cronjob/ticking")
	d.complete("ticked")
	d.jobctl("delete", "job/huge")
	if resting, err := d.BatchV1().CronJobs("default").Get(d.t.Context(), "resting", metav1.GetOptions{}); err != nil ||
		resting.Status.LastScheduleTime != nil {
		d.t.Errorf("cronjob resting: %v: %+v", err, resting.Status)
	}
	if out, err := d.try("jobd", nil, "db", "check", "--root", d.root, "--state", d.state); err != nil || strings.TrimSpace(out) != "sound" {
		d.t.Errorf("jobd db check: %v: %s", err, out)
	}
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// waitsAgain waits until the one running pod of job again is where it has failed once and waits, and that it is the
// n-th pod.
func (d *daemon) waitsAgain(n int) {
	d.t.Helper()
	d.eventually(fmt.Sprintf("pod %d of team/again waits", n), func() error {
		pods, err := d.CoreV1().Pods("team").List(d.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		running := slices.DeleteFunc(slices.Clone(pods.Items), func(p corev1.Pod) bool { return !ready(&p) })
		if len(pods.Items) != n || len(running) != 1 || running[0].Status.ContainerStatuses[0].RestartCount != 1 {
			return fmt.Errorf("%d pods, %d are ready", len(pods.Items), len(running))
		}
		return nil
	})
}

// containers returns the ids of all containers, by namespace/pod/container.
func (d *daemon) containers() map[string]string {
	d.t.Helper()
	pods, err := d.CoreV1().Pods("").List(d.t.Context(), metav1.ListOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	ids := map[string]string{}
	for _, p := range pods.Items {
		for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			ids[p.Namespace+"/"+p.Name+"/"+s.Name] = s.ContainerID
		}
	}
	return ids
}

// objects returns all objects by their UIDs, without what a daemon changes by itself.
func (d *daemon) objects() map[types.UID]map[string]any {
	d.t.Helper()
	lists, err := d.Discovery().ServerPreferredResources()
	if err != nil {
		d.t.Fatal(err)
	}
	all := map[types.UID]map[string]any{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			if !slices.Contains(r.Verbs, "list") || slices.Contains([]string{"Event", "Lease", "Node", "Endpoints", "EndpointSlice"}, r.Kind) {
				continue
			}
			path := "/apis/" + list.GroupVersion + "/" + r.Name
			if list.GroupVersion == "v1" {
				path = "/api/v1/" + r.Name
			}
			answer, err := d.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(d.t.Context())
			if err != nil {
				d.t.Fatalf("%s: %v", path, err)
			}
			var items struct{ Items []map[string]any }
			if err := json.Unmarshal(answer, &items); err != nil {
				d.t.Fatalf("%s: %v", path, err)
			}
			for _, o := range items.Items {
				meta := o["metadata"].(map[string]any)
				uid, ok := meta["uid"].(string)
				if !ok {
					continue // it is not stored, as metrics are not
				}
				for _, changing := range []string{"resourceVersion", "generation", "managedFields", "finalizers"} {
					delete(meta, changing)
				}
				delete(o, "status")
				if meta["name"] == "kube-root-ca.crt" { // made anew where the keys are not restored
					delete(o, "data")
				}
				o["kind"] = r.Kind
				all[types.UID(uid)] = o
			}
		}
	}
	return all
}

// stillHas checks that nothing of what there was is missing or changed.
func (d *daemon) stillHas(had map[types.UID]map[string]any) {
	d.t.Helper()
	has := d.objects()
	for uid, was := range had {
		if is := has[uid]; !within(was, is) {
			d.t.Errorf("%v was\n%v\nand is\n%v", was["kind"], was, is)
		}
	}
	d.t.Logf("%d objects are as they were", len(had))
}

// record writes what is left of an older version when the host goes down.
func record(t *testing.T, root string, had map[types.UID]map[string]any, path string) {
	t.Helper()
	objects, err := json.MarshalIndent(had, "", "\t")
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "objects.json"), objects, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	packed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewWriter(packed)
	// No images, which are large, and no keys.
	for _, name := range []string{"jobd.db", "logs", "objects.json"} {
		err = errors.Join(err, filepath.WalkDir(filepath.Join(root, name), func(file string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			inRoot, _ := filepath.Rel(root, file)
			err = archive.WriteHeader(&tar.Header{Name: inRoot, Mode: 0o600, Size: int64(len(content))})
			if err == nil {
				_, err = archive.Write(content)
			}
			return err
		}))
	}
	if err := errors.Join(err, archive.Close(), packed.Close(), out.Close(), os.Remove(filepath.Join(root, "objects.json"))); err != nil {
		t.Fatal(err)
	}
}

// restore puts into a root what record has written, and returns what was there.
func restore(t *testing.T, path, root string) (had map[types.UID]map[string]any) {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	unpacked, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if err == io.EOF {
			break
		}
		var content []byte
		if err == nil {
			content, err = io.ReadAll(archive)
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Name == "objects.json" {
			if err := json.Unmarshal(content, &had); err != nil {
				t.Fatal(err)
			}
			continue
		}
		file := filepath.Join(root, header.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, content, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if len(had) == 0 {
		t.Fatalf("%s: no objects are in it", path)
	}
	return had
}
