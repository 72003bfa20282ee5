package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/testdata/images"
)

// crashScenario does what the round of the matrix does not, and so passes other points.
type crashScenario struct {
	// points are those that it is for: each is passed when nothing is killed.
	points []string
	// most is how many moments of each point are tried at most; 0: two.
	most int
	// prepare sets what the daemon is started with, and skips the test where the host lacks something. It returns the directory
	// for the daemon's root.
	prepare func(t *testing.T, d *daemon) string
	// run does it on a daemon that may be killed at any time, checks what can be seen of it, and leaves only Jobs and claims
	// behind. It is called again on the same daemon.
	run func(c *matrix)
}

// crashScenarios are listed by their names in CRASHES.md.
var crashScenarios = map[string]crashScenario{
	"pause":            {points: []string{"pause.frozen", "pause.thawed"}, run: crashPause},
	"signal":           {points: []string{"signal.sent"}, run: crashSignal},
	"debug":            {points: []string{"processes.pin.made", "processes.pin.mounted"}, run: crashDebug},
	"declared volumes": {points: []string{"declared-volume.filled"}, run: crashDeclaredVolume},
	"abandoned claims": {points: []string{"claim.abandoned"}, run: crashAbandonedClaim},
	"host commands":    {points: []string{"shard.host.shown"}, prepare: prepareHost, run: crashHost},
	"manifests": {
		points: []string{"manifests.apply.begun", "manifests.apply.done", "manifests.remove.done"}, most: 4,
		prepare: prepareManifests, run: crashManifests,
	},
	"larger claims": {
		points: []string{
			"persistent.expand.reserved", "persistent.expand.recorded", "persistent.expand.device", "persistent.expand.resized",
		},
		prepare: prepareLargerClaims, run: crashLargerClaim,
	},
	"project quotas": {
		points:  []string{"persistent.project.chosen", "persistent.project.limited"},
		prepare: prepareProjectQuotas, run: crashProjectQuota,
	},
	"jobset": {
		points: []string{
			"jobset.restart.decided", "jobset.job.deleted", "jobset.job.created", "pass.decided", "pass.stored", "pass.acted",
		},
		most: 4, run: func(c *matrix) { crashJobSet(c, jobsetv1.Recreate) },
	},
	"jobset blocking": {
		points: []string{"jobset.restart.decided", "jobset.job.deleted", "jobset.job.created"},
		most:   4, run: func(c *matrix) { crashJobSet(c, jobsetv1.BlockingRecreate) },
	},
	"nfs":        {points: []string{"volume.nfs.before", "volume.nfs.after"}, prepare: prepareNFS, run: crashNFS},
	"huge pages": {points: []string{"volume.hugetlbfs.before", "volume.hugetlbfs.after"}, prepare: prepareHugePages, run: crashHugePages},
}

// TestCrashScenarios kills the daemon at the points of each scenario: with JOBD_CRASH_MATRIX=all at all of them, and if that is
// the beginning of a point's name, at those that begin so; without it, once at the first one of each scenario.
func TestCrashScenarios(t *testing.T) {
	t.Parallel()
	build := crashBuild(t)
	for name, s := range crashScenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			points := chosen(s.points, s.points[:1], func(point string) string { return point })
			if os.Getenv("JOBD_CRASH_MATRIX") == "" {
				s.most = 1
			}
			if len(points) > 0 {
				s.crashAt(t, build, points)
			}
		})
	}
}

// crashAt runs the scenario without a crash, and then with one at each of some points.
func (s crashScenario) crashAt(t *testing.T, build string, points []string) {
	d, dir := &daemon{t: t, build: build}, "/var/tmp"
	if s.prepare != nil {
		dir = s.prepare(t, d)
	}
	c := startMatrix(t, d, dir)
	s.run(c)
	c.remove()
	passed := c.passed()
	for _, point := range s.points {
		if passed[point] == 0 {
			t.Errorf("%s is not passed", point)
		}
	}
	most := s.most
	if most == 0 {
		most = 2
	}
	for _, point := range points {
		for _, m := range momentsOf(point, passed[point], most) {
			ok := t.Run(fmt.Sprintf("%s/%d", m.point, m.times), func(t *testing.T) {
				c.t = t
				c.arm(m.point, m.times)
				s.run(c)
				c.remove()
				if !c.disarm() {
					t.Error("it was not reached")
				}
			})
			if c.t = t; !ok {
				return // nobody knows what is left of it
			}
		}
	}
}

// fresh returns a name that no earlier run has used, whose events may still be there.
func fresh(name string) string { return name + "-" + strconv.FormatInt(time.Now().UnixNano(), 36) }

// attempt runs jobctl until it succeeds, whatever is killed meanwhile.
func (c *matrix) attempt(input string, args ...string) {
	c.t.Helper()
	c.until("jobctl "+strings.Join(args, " "), func() error {
		if said, err := c.try("jobctl", []byte(input), args...); err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		return nil
	})
}

// applyWith applies a manifest in which OUT stands for a mount of a directory of the host at /out, and NOTES for its volume.
func (c *matrix) applyWith(out, manifest string) {
	c.t.Helper()
	c.attempt(strings.NewReplacer(
		"OUT", `{name: out, mountPath: /out}`, "NOTES", `{name: out, hostPath: {path: `+out+`}}`,
	).Replace(manifest), "apply", "-f", "-")
}

// notes waits until a file that a container writes on the host is as it should be.
func (c *matrix) notes(path string, is func(text string) bool) string {
	c.t.Helper()
	var text string
	c.until("what containers write", func() error {
		content, _ := os.ReadFile(path)
		if text = string(content); !is(text) {
			return fmt.Errorf("in %s: %q", path, text)
		}
		return nil
	})
	return text
}

// completes waits for a Job that succeeds with one run of each container of one pod, which it returns.
func (c *matrix) completes(job string) (p corev1.Pod) {
	c.t.Helper()
	c.until(job+" is complete", func() error {
		j, err := c.BatchV1().Jobs("default").Get(c.t.Context(), job, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if j.Status.Failed > 0 {
			c.t.Fatalf("it has failed: %+v\njobd said:\n%s", j.Status, c.output)
		}
		if j.Status.Succeeded != 1 || j.Status.CompletionTime == nil {
			return fmt.Errorf("%+v", j.Status)
		}
		return nil
	})
	c.until("its pod", func() error {
		list, err := c.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{LabelSelector: "job-name=" + job})
		if err != nil || len(list.Items) != 1 {
			return fmt.Errorf("%d pods: %w", len(list.Items), err)
		}
		p = list.Items[0]
		return nil
	})
	for _, s := range p.Status.ContainerStatuses {
		if s.RestartCount > 0 {
			c.t.Errorf("it has run %d times: %+v", s.RestartCount+1, s)
		}
	}
	return p
}

// said returns the log of a pod's container.
func (c *matrix) said(pod, container string) (text string) {
	c.t.Helper()
	c.until("the log of "+pod, func() error {
		log, err := c.CoreV1().Pods("default").GetLogs(pod, &corev1.PodLogOptions{Container: container}).DoRaw(c.t.Context())
		text = string(log)
		return err
	})
	return text
}

// crashJob is a Job of one container that runs a script.
func crashJob(name, annotations, container, script, volumes string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  backoffLimit: 0
  template:
    metadata: {annotations: {%s}}
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: "busybox:1.36", command: [sh, -c, %q], %s}
      volumes: [NOTES, %s]
---
`, name, annotations, script, container, volumes)
}

// A Job that is paused stands still, goes on where it was, and has lost nothing.
func crashPause(c *matrix) {
	out := c.t.TempDir()
	count := filepath.Join(out, "count")
	c.applyWith(out, crashJob("counts", "", "volumeMounts: [OUT]",
		"i=0; until [ -e /out/go ]; do i=$((i+1)); echo $i | tee -a /out/count; sleep 0.05; done", ""))
	lines := func(least int) int {
		return strings.Count(c.notes(count, func(text string) bool { return strings.Count(text, "\n") >= least }), "\n")
	}
	paused := func(is bool) {
		c.until(fmt.Sprint("the pod is paused: ", is), func() error {
			list, err := c.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) != 1 {
				return fmt.Errorf("%d pods: %w", len(list.Items), err)
			}
			if _, has := core.PausedSince(&list.Items[0]); has != is {
				return fmt.Errorf("%+v", list.Items[0].Status.Conditions)
			}
			return nil
		})
	}
	lines(3)
	c.attempt("", "pause", "jobs/counts")
	paused(true)
	stood := lines(0)
	c.attempt("", "get", "jobs")
	if now := lines(0); now != stood {
		c.t.Errorf("it went on from %d to %d", stood, now)
	}
	c.attempt("", "continue", "jobs/counts")
	lines(stood + 3)
	paused(false)
	if err := os.WriteFile(filepath.Join(out, "go"), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
	log := c.said(c.completes("counts").Name, "c")
	for i, line := range strings.Fields(log) {
		if line != strconv.Itoa(i+1) {
			c.t.Fatalf("line %d of the log is %s", i+1, line)
		}
	}
	if n := lines(0); strings.Count(log, "\n") != n {
		c.t.Errorf("the log has %d lines, and it wrote %d", strings.Count(log, "\n"), n)
	}
}

// A JobSet of which a Job fails begins another attempt: its Jobs run once in that, whatever is killed between, and nothing of the former
// attempt runs once a Job has begun again; with BlockingRecreate, once any has. The former attempt takes a second to end.
func crashJobSet(c *matrix, strategy jobsetv1.JobSetRestartStrategy) {
	out, name := c.t.TempDir(), fresh("set")
	const group = `
  - name: %s
    replicas: %d
    template:
      spec:
        backoffLimit: 0
        template:
          spec:
            restartPolicy: Never
            terminationGracePeriodSeconds: 30
            containers:
            - name: c
              image: busybox:1.36
              command: [sh, -c, %q]
              volumeMounts: [OUT]
              env:
              - {name: JOB, valueFrom: {fieldRef: {fieldPath: "metadata.labels['batch.kubernetes.io/job-name']"}}}
              - {name: ATTEMPT, valueFrom: {fieldRef: {fieldPath: "metadata.labels['jobset.sigs.k8s.io/restart-attempt']"}}}
            volumes: [NOTES]`
	const run = `echo "$ATTEMPT $JOB" >> /out/runs; [ $ATTEMPT = 1 ] && exit 0; `
	c.applyWith(out, `
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata: {name: `+name+`}
spec:
  failurePolicy: {maxRestarts: 1, restartStrategy: `+string(strategy)+`}
  replicatedJobs:`+fmt.Sprintf(group, "waits", 2, `trap 'sleep 1; echo "end $JOB" >> /out/runs; exit 1' TERM; `+run+"sleep 1000 & wait")+
		fmt.Sprintf(group, "fails", 1, run+"until [ $(wc -l < /out/runs) = 3 ]; do sleep 0.1; done; sleep 2; exit 1")+"\n")
	c.until("the set is complete", func() error {
		js, err := c.jobSet(name)
		switch {
		case err != nil:
			return err
		case js.Status.TerminalState == string(jobsetv1.JobSetFailed):
			c.t.Fatalf("it has failed: %+v\njobd said:\n%s", js.Status, c.output)
		case js.Status.TerminalState == "":
			return fmt.Errorf("%+v", js.Status)
		case js.Status.Restarts != 1 || js.Status.RestartsCountTowardsMax != 1:
			c.t.Errorf("it says: %+v", js.Status)
		}
		return nil
	})
	runs := strings.Split(strings.TrimSpace(strings.ReplaceAll(c.notes(filepath.Join(out, "runs"), func(string) bool { return true }), name+"-", "")), "\n")
	last, begun := map[string]string{}, false
	for _, line := range runs {
		attempt, job, _ := strings.Cut(line, " ")
		if begun = begun || attempt == "1"; attempt == "end" {
			if last[job] != "0" || begun && strategy == jobsetv1.BlockingRecreate {
				c.t.Errorf("%s of the former attempt ends after a Job has begun again: %v", job, runs)
			}
			continue
		}
		if last[job] >= attempt && last[job] != "" {
			c.t.Errorf("%s runs in attempt %s after attempt %s", job, attempt, last[job])
		}
		last[job] = attempt
	}
	slices.Sort(runs)
	want := []string{"0 fails-0", "0 waits-0", "0 waits-1", "1 fails-0", "1 waits-0", "1 waits-1", "end waits-0", "end waits-1"}
	if !slices.Equal(runs, want) {
		c.t.Errorf("there ran %v, want %v", runs, want)
	}
	c.attempt("", "delete", "jobsets", name, "--ignore-not-found")
}

// A container gets its signal once.
func crashSignal(c *matrix) {
	out := c.t.TempDir()
	c.applyWith(out, crashJob("told", "jobd.dev/signal: USR1@1h", "volumeMounts: [OUT]",
		"trap 'echo told >> /out/told' USR1; echo >/out/ready; until [ -e /out/go ]; do sleep 0.1; done", ""))
	c.notes(filepath.Join(out, "ready"), func(text string) bool { return text != "" })
	// The deadline comes so late that its signal is due at once.
	c.attempt("", "patch", "jobs/told", "-p", `{"spec": {"activeDeadlineSeconds": 3601}}`)
	c.until("the signal was sent", func() error {
		list, err := c.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			for _, cond := range p.Status.Conditions {
				if cond.Type == core.Signaled && cond.Status == corev1.ConditionTrue {
					return nil
				}
			}
		}
		return errors.New("it was not")
	})
	c.notes(filepath.Join(out, "told"), func(text string) bool { return text != "" })
	if err := os.WriteFile(filepath.Join(out, "go"), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.completes("told")
	if told := c.notes(filepath.Join(out, "told"), func(string) bool { return true }); told != "told\n" {
		c.t.Errorf("it was told %q", told)
	}
}

// A container that is added to a pod enters the namespaces of another, and runs once.
func crashDebug(c *matrix) {
	out := c.t.TempDir()
	c.applyWith(out, crashJob("debugged", "", "volumeMounts: [OUT]", "until [ -e /out/go ]; do sleep 0.1; done", ""))
	c.until("a container is added", func() error {
		list, err := c.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return fmt.Errorf("%d pods: %w", len(list.Items), err)
		}
		p := &list.Items[0]
		if len(p.Spec.EphemeralContainers) > 0 {
			return nil
		}
		if s := p.Status.ContainerStatuses; len(s) != 1 || s[0].State.Running == nil {
			return errors.New("it does not run yet")
		}
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
			TargetContainerName: "c", EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "added", Image: "busybox:1.36", Command: []string{"sh", "-c", "ps | grep -c [/]out/go; echo run >> /out/added"},
				VolumeMounts: []corev1.VolumeMount{{Name: "out", MountPath: "/out"}},
			},
		}}
		_, err = c.CoreV1().Pods("default").UpdateEphemeralContainers(c.t.Context(), p.Name, p, metav1.UpdateOptions{})
		return err
	})
	c.until("it has ended", func() error {
		list, err := c.CoreV1().Pods("default").List(c.t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return fmt.Errorf("%d pods: %w", len(list.Items), err)
		}
		s := list.Items[0].Status.EphemeralContainerStatuses
		if len(s) != 1 || s[0].State.Terminated == nil {
			return fmt.Errorf("%+v", s)
		}
		if end := s[0].State.Terminated; end.ExitCode != 0 {
			c.t.Errorf("it has ended: %+v", end)
		}
		return nil
	})
	if err := os.WriteFile(filepath.Join(out, "go"), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
	pod := c.completes("debugged").Name
	if said := c.said(pod, "added"); said != "1\n" {
		c.t.Errorf("of the other container it sees %q processes", said)
	}
	if ran := c.notes(filepath.Join(out, "added"), func(string) bool { return true }); ran != "run\n" {
		c.t.Errorf("it has run: %q", ran)
	}
}

// What an image has in a volume that it declares is there as a whole.
func crashDeclaredVolume(c *matrix) {
	image, err := declaringImage()
	if err != nil {
		c.t.Fatal(err)
	}
	c.until("the image is there", func() error {
		var archive bytes.Buffer
		if err := images.WriteDocker(&archive, image); err != nil {
			return err
		}
		if said, err := c.try("jobctl", archive.Bytes(), "image", "import", "-"); err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		return nil
	})
	job := crashJob("declared", "", "imagePullPolicy: Never, volumeMounts: [OUT]", "echo run >> /out/ran; cat /data/*; echo written >/data/new", "")
	out := c.t.TempDir()
	c.applyWith(out, strings.Replace(job, "busybox:1.36", "declaring:1", 1))
	if said := c.said(c.completes("declared").Name, "c"); said != "seed\n" {
		c.t.Errorf("in the volume was %q", said)
	}
	if ran := c.notes(filepath.Join(out, "ran"), func(string) bool { return true }); ran != "run\n" {
		c.t.Errorf("it has run: %q", ran)
	}
}

// A claim that is deleted while its volume cannot be made leaves nothing, and its name can be used again.
func crashAbandonedClaim(c *matrix) {
	name := fresh("claim")
	claim := func(size string) string {
		return fmt.Sprintf(`
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: loop}
provisioner: jobd.dev/local
parameters: {type: loop}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: %s}
spec: {storageClassName: loop, accessModes: [ReadWriteOnce], resources: {requests: {storage: %s}}}
---
`, name, size)
	}
	c.applyWith("", claim("1Pi"))
	c.until("it cannot be made", func() error {
		said, err := c.try("jobctl", nil, "events", "--for", "pvc/"+name)
		if err != nil || !strings.Contains(said, "ProvisioningFailed") {
			return fmt.Errorf("%w: %s", err, said)
		}
		return nil
	})
	c.attempt("", "delete", "pvc/"+name, "--ignore-not-found")
	out := c.t.TempDir()
	c.applyWith(out, claim("16Mi")+crashJob("claims", "", "volumeMounts: [OUT, {name: v, mountPath: /v}]", "echo here > /v/file; cat /v/file",
		"{name: v, persistentVolumeClaim: {claimName: "+name+"}}"))
	if said := c.said(c.completes("claims").Name, "c"); said != "here\n" {
		c.t.Errorf("in the volume: %q", said)
	}
}

func prepareManifests(t *testing.T, d *daemon) string {
	dir := filepath.Join(t.TempDir(), "manifests.d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d.flags = append(d.flags, "--manifests", dir)
	return "/var/tmp"
}

// A file of manifests is applied, changed and removed: each version of its Job runs once.
func crashManifests(c *matrix) {
	out := c.t.TempDir()
	file := filepath.Join(c.flags[slices.Index(c.flags, "--manifests")+1], "file.yaml")
	write := func(version string) {
		c.t.Helper()
		text := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {version: %q}\n---\n", version) +
			crashJob("once", "", "volumeMounts: [OUT]", "echo "+version+" >> /out/runs", "")
		text = strings.NewReplacer("OUT", `{name: out, mountPath: /out}`, "NOTES", `{name: out, hostPath: {path: `+out+`}}`).Replace(text)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			c.t.Fatal(err)
		}
		c.until("version "+version+" is there", func() error {
			settings, err := c.CoreV1().ConfigMaps("default").Get(c.t.Context(), "settings", metav1.GetOptions{})
			if err == nil && settings.Data["version"] != version {
				err = fmt.Errorf("%q", settings.Data)
			}
			return err
		})
		c.notes(filepath.Join(out, "runs"), func(text string) bool { return strings.HasSuffix(text, version+"\n") })
		c.completes("once")
	}
	write("first")
	write("second")
	if err := os.Remove(file); err != nil {
		c.t.Fatal(err)
	}
	c.until("what was in the file is gone", func() error {
		said, err := c.try("jobctl", nil, "get", "jobs,configmaps", "-o", "name")
		if err == nil && (strings.Contains(said, "once") || strings.Contains(said, "settings")) {
			err = errors.New(said)
		}
		return err
	})
	if runs := c.notes(filepath.Join(out, "runs"), func(string) bool { return true }); runs != "first\nsecond\n" {
		c.t.Errorf("it has run: %q", runs)
	}
}

func prepareLargerClaims(t *testing.T, d *daemon) string {
	if why := loops(d); why != "" {
		t.Skip("needs " + why)
	}
	return "/var/tmp"
}

// A claim that gets larger before it is used, and while it is, has that size, and what was in it.
func crashLargerClaim(c *matrix) {
	out, name := c.t.TempDir(), fresh("grows")
	uses := func(job, script string) string {
		return crashJob(job, "", "volumeMounts: [OUT, {name: v, mountPath: /v}]", script, "{name: v, persistentVolumeClaim: {claimName: "+name+"}}")
	}
	ask := func(size string) {
		c.t.Helper()
		c.attempt("", "patch", "pvc/"+name, "-p", `{"spec": {"resources": {"requests": {"storage": "`+size+`"}}}}`)
	}
	has := func(size string) error {
		claim, err := c.CoreV1().PersistentVolumeClaims("default").Get(c.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got := claim.Status.Capacity[corev1.ResourceStorage]; got.Cmp(resource.MustParse(size)) != 0 {
			return fmt.Errorf("%s", got.String())
		}
		return nil
	}
	c.applyWith(out, `
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: grows}
provisioner: jobd.dev/local
allowVolumeExpansion: true
parameters: {type: loop}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: `+name+`}
spec: {storageClassName: grows, accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
---
`)
	ask("64Mi")
	c.until("it is larger before it is used", func() error { return has("64Mi") })
	const fills = "dd if=/dev/zero of=/v/fill bs=1M count=%d 2>/dev/null && rm /v/fill && cat /v/words; "
	c.applyWith(out, uses("first", "echo words > /v/words; "+fmt.Sprintf(fills, 40)+"echo >/out/ready; until [ -e /out/go ]; do sleep 0.1; done"))
	c.notes(filepath.Join(out, "ready"), func(text string) bool { return text != "" })
	ask("128Mi")
	refused := false // as by a sandbox that does not let root do everything
	c.until("it is larger while it is used", func() error {
		err := has("128Mi")
		said, _ := c.try("jobctl", nil, "events", "--for", "pvc/"+name)
		refused = err != nil && strings.Contains(said, "this needs CAP_SYS_RESOURCE")
		if refused {
			return nil
		}
		return err
	})
	if err := os.WriteFile(filepath.Join(out, "go"), nil, 0o600); err != nil {
		c.t.Fatal(err)
	}
	if said := c.said(c.completes("first").Name, "c"); said != "words\n" {
		c.t.Errorf("the first pod says %q", said)
	}
	count := 100
	if refused {
		count = 40
	}
	c.applyWith(out, uses("second", fmt.Sprintf(fills, count)))
	if said := c.said(c.completes("second").Name, "c"); said != "words\n" {
		c.t.Errorf("the second pod says %q", said)
	}
}

// prepareProjectQuotas puts the daemon's root on a file system that limits directories.
func prepareProjectQuotas(t *testing.T, d *daemon) string {
	if why := loops(d); why != "" {
		t.Skip("needs " + why)
	}
	dir := t.TempDir()
	image, point := filepath.Join(dir, "disk"), filepath.Join(dir, "mnt")
	if err := errors.Join(os.Mkdir(point, 0o755), os.WriteFile(image, nil, 0o600), os.Truncate(image, 1<<30)); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota", image}, {"mount", "-o", "loop,prjquota", image, point},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("needs ext4 with project quotas: %v: %s", err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", point).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return point
}

// A directory that a claim has is limited to its size.
func crashProjectQuota(c *matrix) {
	c.applyWith(c.t.TempDir(), `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: limited}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 16Mi}}}
---
`+crashJob("fills", "", "volumeMounts: [OUT, {name: v, mountPath: /v}]",
		"dd if=/dev/zero of=/v/fits bs=1M count=8 2>/dev/null && echo fits; dd if=/dev/zero of=/v/more bs=1M count=16 2>/dev/null || echo full",
		"{name: v, persistentVolumeClaim: {claimName: limited}}"))
	if said := c.said(c.completes("fills").Name, "c"); said != "fits\nfull\n" {
		c.t.Errorf("it says %q", said)
	}
}

// prepareNFS lets a program stand in for mount.nfs.
func prepareNFS(t *testing.T, d *daemon) string {
	export, programs := t.TempDir(), t.TempDir()
	script := "#!/bin/sh\nmount --bind " + export + " \"$2\"\n"
	if err := errors.Join(os.Chmod(export, 0o777), os.WriteFile(filepath.Join(programs, "mount.nfs"), []byte(script), 0o755)); err != nil {
		t.Fatal(err)
	}
	d.env = append(d.env, "PATH="+programs+":"+os.Getenv("PATH"), "EXPORT="+export)
	return "/var/tmp"
}

// A pod has what a server exports, once.
func crashNFS(c *matrix) {
	export := c.env[slices.IndexFunc(c.env, func(v string) bool { return strings.HasPrefix(v, "EXPORT=") })][len("EXPORT="):]
	file := filepath.Join(export, fresh("file"))
	job := crashJob("writes", "", "volumeMounts: [OUT, {name: v, mountPath: /v}]", "echo run >> /v/"+filepath.Base(file),
		"{name: v, nfs: {server: up, path: /export}}")
	c.applyWith(c.t.TempDir(), strings.Replace(job, "restartPolicy", "hostUsers: true\n      restartPolicy", 1))
	c.completes("writes")
	if ran := c.notes(file, func(string) bool { return true }); ran != "run\n" {
		c.t.Errorf("it has run: %q", ran)
	}
}

func prepareHugePages(t *testing.T, _ *daemon) string {
	moreHugePages(t, 2)
	return "/var/tmp"
}

// A pod has a file system of huge pages of the size that it asks for.
func crashHugePages(c *matrix) {
	const pages = "resources: {limits: {hugepages-2Mi: 4Mi, memory: 32Mi}}, volumeMounts: [OUT, {name: v, mountPath: /v}]"
	c.applyWith(c.t.TempDir(), crashJob("pages", "", pages, "fallocate -l 4M /v/all && echo run >> /out/ran; stat -f -c %T /v",
		"{name: v, emptyDir: {medium: HugePages}}"))
	if said := c.said(c.completes("pages").Name, "c"); !strings.Contains(said, "hugetlbfs") && !strings.Contains(said, "UNKNOWN") {
		c.t.Errorf("it says %q", said)
	}
}
