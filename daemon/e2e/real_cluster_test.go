package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/testdata/rig"
)

// The tests in this file run real components, which take half an hour to compile: make e2e-cluster.

// countFrom returns a number from the environment.
func countFrom(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}

// longPatience is how long many Jobs may take on a busy machine. Kueue 0.19 asks each worker five times a second.
const longPatience = 70 * time.Minute

// fromPage returns the block of code on a page of the documentation that a test applies.
func fromPage(t *testing.T, page, why string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- not run: "+why+" -->\n```yaml\n")
	block, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatalf("%s has no block %q", page, why)
	}
	return block
}

// box is a machine of a fleet: a worker of MultiKueue, which its manager reaches by a line that can be cut.
type box struct {
	*daemon
	name string
	line *line
	json dynamic.Interface
}

// joinBox starts a worker and has it join the fleet of a manager, as docs/clusters.md says.
func (c *controlPlane) joinBox(name string, flags ...string) *box {
	c.t.Helper()
	dir, at := c.t.TempDir(), freePort(c.t)
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writeCertificate(c.t, cert, key)
	b := &box{name: name, line: lineTo(c.t, at)}
	b.daemon = start(c.t, append([]string{"--network", "none", "--multikueue", "--multikueue-listen", at, "--multikueue-cert-file", cert,
		"--multikueue-key-file", key}, flags...)...)
	join := exec.Command(filepath.Join(bin, "jobctl"), "--socket", b.socket(), "fleet", "join", name, "--server", "https://"+b.line.address(),
		"--certificate-authority", cert)
	out, err := join.Output()
	if err != nil {
		c.t.Fatalf("join: %v", err)
	}
	c.kubectl(out, "apply", "-f", "-")
	if b.json, err = dynamic.NewForConfig(b.client()); err != nil {
		c.t.Fatal(err)
	}
	return b
}

// empty returns an error as long as something of what was handed out is there.
func (b *box) empty() error {
	all, err := b.json.Resource(workloads).List(b.t.Context(), metav1.ListOptions{})
	if err == nil && len(all.Items) > 0 {
		err = fmt.Errorf("%s still has %d Workloads", b.name, len(all.Items))
	}
	return cmp.Or(err, remains(b.t, b))
}

// remains returns an error as long as there are Jobs or pods anywhere.
func remains(t *testing.T, client kubernetes.Interface) error {
	jobs, err := client.BatchV1().Jobs("").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
	if err == nil && len(jobs.Items)+len(pods.Items) > 0 {
		err = fmt.Errorf("%d Jobs, %d pods are there", len(jobs.Items), len(pods.Items))
	}
	return err
}

// handedOut returns a Job for the queue of the fleet, which runs a script in a real container.
func handedOut(name, script, marks string) *batchv1.Job {
	j := &batchv1.Job{}
	if err := yaml.Unmarshal([]byte(jobOf(name, script)), j); err != nil {
		panic(err)
	}
	j.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "fleet", "app": "handed-out"}
	c := &j.Spec.Template.Spec.Containers[0]
	c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	if marks != "" {
		c.VolumeMounts = []corev1.VolumeMount{{Name: "marks", MountPath: "/marks"}}
		j.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "marks", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: marks}}}}
	}
	return j
}

// endedOf returns how many of a client's Jobs have ended, and with which status each is there.
func endedOf(t *testing.T, client kubernetes.Interface) (n int, all map[string]*batchv1.Job) {
	t.Helper()
	list, err := client.BatchV1().Jobs("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all = map[string]*batchv1.Job{}
	for i := range list.Items {
		j := &list.Items[i]
		all[j.Name] = j
		if condition(j, batchv1.JobComplete) != nil || condition(j, batchv1.JobFailed) != nil {
			n++
		}
	}
	return n, all
}

// An unmodified Kueue hands Jobs out to two jobds. One of them is killed again and again, the other is cut off for a minute. Each Job runs
// once, its end comes, its log is whole on the machine that ran it, and nothing else is left there.
func TestKueueHandsOut(t *testing.T) {
	c := startControlPlane(t)
	c.startKueue()
	n := countFrom("JOBD_DISPATCHED", 200)
	boxes := []*box{c.joinBox("box1", "--allocatable", "cpu=1,memory=8Gi"), c.joinBox("box2", "--allocatable", "cpu=1,memory=8Gi")}
	c.kubectl([]byte(fromPage(t, "clusters.md", "TestKueueHandsOut applies this to a cluster with Kueue's manager")), "apply", "-f", "-")
	c.kubectl(nil, "wait", "multikueuecluster", "--all", "--for=condition=Active", patiently)
	c.kubectl(nil, "wait", "clusterqueue", "fleet", "--for=condition=Active", patiently)

	marks, err := os.MkdirTemp("/var/tmp", "jobd-e2e-marks.")
	if err == nil {
		err = os.Chmod(marks, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(marks) })
	fails := func(i int) bool { return i%5 == 0 }
	for i := range n {
		code := 0
		if fails(i) {
			code = 3
		}
		name := fmt.Sprint("k", i)
		script := fmt.Sprintf("echo run >> /marks/%s; seq 1 20; sleep %d; seq 21 40; exit %d", name, 1+i%9, code)
		if _, err := c.BatchV1().Jobs("default").Create(t.Context(), handedOut(name, script, marks), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	progress := func(least int) {
		t.Helper()
		c.within(longPatience, fmt.Sprintf("%d of %d Jobs have ended", least, n), func() error {
			if ended, _ := endedOf(t, c); ended < least {
				return fmt.Errorf("%d have", ended)
			}
			return nil
		})
	}
	progress(n / 10)
	for range 3 {
		boxes[0].kill()
		time.Sleep(2 * time.Second)
		boxes[0].serve()
		time.Sleep(10 * time.Second)
	}
	// One after the other: what Kueue 0.19 looks at while it reaches no worker at all, it forgets until something of that changes.
	c.kubectl(nil, "wait", "multikueuecluster", "--all", "--for=condition=Active", patiently)
	for _, how := range []cut{lineStalled, lineRefused} { // a minute in all: far less than MultiKueue's workerLostTimeout
		boxes[1].line.set(how)
		time.Sleep(30 * time.Second)
	}
	boxes[1].line.set(lineWhole)
	progress(n)

	_, all := endedOf(t, c)
	for i := range n {
		j := all[fmt.Sprint("k", i)]
		failed := condition(j, batchv1.JobFailed)
		if j.Status.Succeeded+j.Status.Failed != 1 || (failed != nil) != fails(i) || failed != nil && failed.Reason != batchv1.JobReasonBackoffLimitExceeded {
			t.Errorf("%s has the status %+v", j.Name, j.Status)
		}
		if runs, err := os.ReadFile(filepath.Join(marks, j.Name)); string(runs) != "run\n" {
			t.Errorf("%s ran so often: %q (%v)", j.Name, runs, err)
		}
	}
	for _, b := range boxes {
		c.eventually("nothing is left", b.empty)
	}
	var want strings.Builder
	for i := range 40 {
		fmt.Fprintln(&want, i+1)
	}
	ran := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		var has []string
		for _, b := range boxes {
			out, err := exec.Command(filepath.Join(bin, "jobctl"), "--socket", b.socket(), "logs", "jobs/"+name).Output()
			if err != nil || len(out) == 0 {
				continue
			}
			has = append(has, b.name)
			ran[b.name]++
			if string(out) != want.String() {
				t.Errorf("the log of %s on %s is %q", name, b.name, out)
			}
		}
		if len(has) != 1 {
			t.Errorf("these have a log of %s: %v", name, has)
		}
	}
	t.Logf("all have ended, of %d Jobs so many on each: %v", n, ran)
	c.kubectl(nil, "delete", "jobs", "--all")
	c.costOfHandingOut(boxes, countFrom("JOBD_DISPATCHED_MEASURED", 300))
}

// costOfHandingOut measures n short Jobs that nobody shoots at.
func (c *controlPlane) costOfHandingOut(boxes []*box, n int) {
	c.t.Helper()
	pids := map[string]int{"Kueue's manager": c.pids["kueue"]}
	for _, b := range boxes {
		pids["the daemon of "+b.name] = b.process.Process.Pid
	}
	costs := watchCosts(pids)
	begin := time.Now()
	for i := range n {
		if _, err := c.BatchV1().Jobs("default").Create(c.t.Context(), handedOut(fmt.Sprint("m", i), "true", ""), metav1.CreateOptions{}); err != nil {
			c.t.Fatal(err)
		}
	}
	created := time.Since(begin)
	c.within(longPatience, "all have ended", func() error {
		if ended, _ := endedOf(c.t, c); ended < n {
			return fmt.Errorf("%d of %d have", ended, n)
		}
		return nil
	})
	took := time.Since(begin)
	for _, b := range boxes {
		c.eventually("nothing is left", b.empty)
	}
	costs.print(c.t, fmt.Sprintf("%d Jobs of `true` handed out to %d machines in %.0f s, of which creating them takes %.0f", n, len(boxes),
		took.Seconds(), created.Seconds()))
}

// Jobs are forwarded to a real cluster while the forwarder is killed and the line is cut: each runs once, none is lost, its status, pods
// and log are those of the cluster, and nothing is left there.
func TestForwardToARealCluster(t *testing.T) {
	c := startControlPlane(t)
	node := c.startFakeNode()
	here := start(t, "--runtime", "simulated", "--listen", freePort(t))
	f := forwarderTo(t, here, strings.TrimPrefix(c.config.Host, "https://"), c.kubeconfig)
	n := countFrom("JOBD_FORWARDED", 1000)
	var making sync.WaitGroup
	making.Go(func() { here.makeAll(manyForwarded("m", n)) })
	f.shootAt(n)
	making.Wait()
	f.allAlike(c, node, "m", n)

	measured := countFrom("JOBD_MEASURED", 1000)
	f.kill()
	f.begin()
	here.makeAll(forwarded("first", "0s", "0"))
	here.complete("first")
	here.remove("first", metav1.DeletePropagationBackground)
	here.gone("first")
	costs := watchCosts(map[string]int{"the forwarder": f.process.Process.Pid, "the daemon": here.process.Process.Pid})
	begin := time.Now()
	here.makeAll(manyForwarded("q", measured))
	created := time.Since(begin)
	c.within(longPatience, "all have ended", func() error {
		if got := f.ended(); got < measured {
			return fmt.Errorf("%d of %d have", got, measured)
		}
		return nil
	})
	costs.print(t, fmt.Sprintf("%d Jobs forwarded to a real cluster in %.0f s, of which creating them takes %.0f", measured,
		time.Since(begin).Seconds(), created.Seconds()))
	f.allAlike(c, node, "q", measured)
}

// makeAll makes the Jobs of a manifest, which takes a jobctl many times as long.
func (d *daemon) makeAll(manifest string) {
	for doc := range strings.SplitSeq(strings.TrimPrefix(manifest, "---\n"), "---\n") {
		j := &batchv1.Job{}
		err := yaml.Unmarshal([]byte(doc), j)
		if err == nil {
			_, err = d.BatchV1().Jobs("default").Create(d.t.Context(), j, metav1.CreateOptions{})
		}
		if err != nil {
			d.t.Error(err)
			return
		}
	}
}

// allAlike waits until n Jobs have ended here as in a cluster, checks all that came from there, and removes them.
func (f *forwarder) allAlike(c *controlPlane, node *fakeNode, name string, n int) {
	f.t.Helper()
	c.within(longPatience, "all have ended as there", func() error {
		ended, here := endedOf(f.t, f.here)
		_, there := endedOf(f.t, c)
		if ended < n {
			return fmt.Errorf("%d of %d have ended", ended, n)
		}
		for name, l := range here {
			if r := there[name]; r == nil || !equality.Semantic.DeepEqual(l.Status, r.Status) {
				return fmt.Errorf("%s: here %+v\nthere %+v", name, l, r)
			}
		}
		return nil
	})
	_, jobs := endedOf(f.t, f.here)
	pods := map[string][]corev1.Pod{}
	list, err := f.here.CoreV1().Pods("default").List(f.t.Context(), metav1.ListOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, p := range list.Items {
		pods[p.Labels[batchv1.JobNameLabel]] = append(pods[p.Labels[batchv1.JobNameLabel]], p)
	}
	runs := node.runs()
	for i := range n {
		j := jobs[fmt.Sprint(name, i)]
		if j == nil {
			f.t.Errorf("%s%d is lost", name, i)
			continue
		}
		failed := condition(j, batchv1.JobFailed)
		if (failed != nil) != (i%5 == 0) || failed != nil && failed.Reason != batchv1.JobReasonBackoffLimitExceeded {
			f.t.Errorf("%s: %+v", j.Name, j.Status.Conditions)
		}
		if runs[j.Name] != 1 || len(pods[j.Name]) != 1 {
			f.t.Errorf("%s has run %d times there, and has %d pods here", j.Name, runs[j.Name], len(pods[j.Name]))
			continue
		}
		pod := &pods[j.Name][0]
		first, last := printed(pod.Name)
		log, err := f.here.CoreV1().Pods("default").GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(f.t.Context())
		if err != nil || string(log) != first+last || pod.Spec.NodeName != "prod" {
			f.t.Errorf("the log of %s on %s is %q: %v", pod.Name, pod.Spec.NodeName, log, err)
		}
	}
	begin, background := time.Now(), metav1.DeletePropagationBackground
	if err := f.here.BatchV1().Jobs("default").DeleteCollection(f.t.Context(), metav1.DeleteOptions{PropagationPolicy: &background},
		metav1.ListOptions{}); err != nil {
		f.t.Fatal(err)
	}
	for what, client := range map[string]kubernetes.Interface{"here": f.here, "there": c} {
		c.within(longPatience, "nothing is left "+what, func() error { return remains(f.t, client) })
	}
	f.t.Logf("%d Jobs were deleted here and there in %.0f s", n, time.Since(begin).Seconds())
}

// costs follows what processes use.
type costs struct {
	pids   map[string]int
	before map[string]rig.Usage
	most   map[string]float64
	over   chan struct{}
	done   sync.WaitGroup
}

// watchCosts begins to follow processes.
func watchCosts(pids map[string]int) *costs {
	c := &costs{pids: pids, before: map[string]rig.Usage{}, most: map[string]float64{}, over: make(chan struct{})}
	for name, pid := range pids {
		c.before[name] = rig.UsageOf(pid)
	}
	c.done.Go(func() {
		for {
			for name, pid := range pids {
				c.most[name] = max(c.most[name], rig.UsageOf(pid).Anon)
			}
			select {
			case <-c.over:
				return
			case <-time.After(500 * time.Millisecond):
			}
		}
	})
	return c
}

// print prints rows for BENCHMARKS.md.
func (c *costs) print(t *testing.T, what string) {
	t.Helper()
	close(c.over)
	c.done.Wait()
	var rows strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.pids)) {
		now, was := rig.UsageOf(c.pids[name]), c.before[name]
		fmt.Fprintf(&rows, "| %s | %.1f | %.0f | %.0f |\n", name, now.CPU-was.CPU, was.Anon, c.most[name])
	}
	t.Logf("%s:\n\n| process | CPU s | memory of its own before MB | the most MB |\n|---|---|---|---|\n%s", what, &rows)
}
