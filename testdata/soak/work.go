package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/testdata/rig"
)

const (
	shared = "shared" // the ConfigMap and the Secret that pods mount
	// patience is how long to wait for what must happen.
	patience = 10 * time.Minute
)

// kinds are the Jobs that people have, and how many of each come in turn: 100 pods in all.
var kinds = []struct {
	times, pods int
	run         func(*work, context.Context, string) error
}{
	{28, 1, (*work).plain},
	{3, 10, (*work).indexed},
	{5, 1, (*work).chatty},
	{4, 2, (*work).failing},
	{4, 1, (*work).mounting},
	{2, 1, (*work).claiming},
	{3, 1, (*work).kept},
	{2, 2, (*work).deleted},
	{1, 4, (*work).meeting},
	{1, 2, (*work).visiting},
	{1, 1, (*work).entered},
	{2, 1, (*work).restarting},
	{2, 1, (*work).guarded},
	{3, 1, (*work).asking},
	{2, 1, (*work).storing},
}

// work creates Jobs and checks what becomes of them.
type work struct {
	daemon  *daemon
	clients int
	random  *rand.Rand
	turn    []int // of kinds, those still to come in this turn
	n       int   // Jobs so far

	mu       sync.Mutex
	finished []string // kept Jobs, the oldest first
}

func newWork(d *daemon, seed uint64, clients int) *work {
	return &work{daemon: d, clients: clients, random: rand.New(rand.NewPCG(seed, seed))}
}

// next returns which of the kinds comes next. All come as often as they should in each turn, in an order at random.
func (w *work) next() int {
	if len(w.turn) == 0 {
		for i, kind := range kinds {
			for range kind.times {
				w.turn = append(w.turn, i)
			}
		}
		w.random.Shuffle(len(w.turn), func(i, j int) { w.turn[i], w.turn[j] = w.turn[j], w.turn[i] })
	}
	last := len(w.turn) - 1
	defer func() { w.turn = w.turn[:last] }()
	return w.turn[last]
}

// row runs Jobs of at least that many pods and returns when all have ended.
func (w *work) row(ctx context.Context, pods int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type order struct {
		kind int
		name string
	}
	orders := make(chan order)
	failed := make(chan error, w.clients)
	var group sync.WaitGroup
	for range w.clients {
		group.Go(func() {
			for o := range orders {
				if err := w.one(ctx, o.kind, o.name); err != nil {
					failed <- fmt.Errorf("%s: %w", o.name, err)
					cancel()
					return
				}
			}
		})
	}
	for given := 0; given < pods && ctx.Err() == nil; {
		kind := w.next()
		w.n++
		select {
		case orders <- order{kind, fmt.Sprintf("job-%d", w.n)}:
			given += kinds[kind].pods
		case <-ctx.Done():
		}
	}
	close(orders)
	group.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.trimKept(ctx, 5)
}

func (w *work) one(ctx context.Context, kind int, name string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return kinds[kind].run(w, ctx, name)
}

// prepare creates what Jobs share.
func (w *work) prepare(ctx context.Context) error {
	_, err := w.daemon.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: shared}, Data: map[string]string{"greeting": "hello"},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = w.daemon.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: shared}, StringData: map[string]string{"password": "open sesame"},
	}, metav1.CreateOptions{})
	return err
}

// startCronJobs creates CronJobs that run every minute.
func (w *work) startCronJobs(ctx context.Context) error {
	for i := range 5 {
		spec := job("", 1, 1, "echo", "tick").Spec
		_, err := w.daemon.BatchV1().CronJobs("default").Create(ctx, &batchv1.CronJob{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("tick-%d", i)},
			Spec: batchv1.CronJobSpec{
				Schedule: "* * * * *", ConcurrencyPolicy: batchv1.ForbidConcurrent,
				SuccessfulJobsHistoryLimit: ptr.To(int32(2)), JobTemplate: batchv1.JobTemplateSpec{Spec: spec},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
	}
	return nil
}

// job returns a Job of n pods that run a command, parallel of them at a time.
func job(name string, n, parallel int, command ...string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{
			Completions: ptr.To(int32(n)), Parallelism: ptr.To(int32(parallel)),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy:                 corev1.RestartPolicyNever,
				TerminationGracePeriodSeconds: ptr.To(int64(0)),
				Containers:                    []corev1.Container{{Name: "c", Image: rig.BusyboxName, Command: command}},
			}},
		},
	}
}

// claim returns the spec of a claim of a small volume.
func claim() corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("16Mi")},
		},
	}
}

// plain Jobs go as soon as they have ended.
func (w *work) plain(ctx context.Context, name string) error {
	j := job(name, 1, 1, "true")
	j.Spec.TTLSecondsAfterFinished = ptr.To(int32(0))
	return w.completes(ctx, "default", j)
}

// indexed Jobs stay for a few seconds.
func (w *work) indexed(ctx context.Context, name string) error {
	j := job(name, 10, 4, "sh", "-c", "echo I am $JOB_COMPLETION_INDEX")
	j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	j.Spec.TTLSecondsAfterFinished = ptr.To(int32(5))
	return w.completes(ctx, "default", j)
}

// chatty Jobs are followed by a client, which then deletes them.
func (w *work) chatty(ctx context.Context, name string) error {
	const lines = 200
	if err := w.completes(ctx, "default", job(name, 1, 1, "seq", "1", fmt.Sprint(lines))); err != nil {
		return err
	}
	pod, err := w.pod(ctx, "default", name)
	if err != nil {
		return err
	}
	text, err := w.daemon.logs(ctx, "default", pod, &corev1.PodLogOptions{Follow: true})
	if err != nil {
		return err
	}
	if got := strings.Count(text, "\n"); got != lines {
		return fmt.Errorf("log has %d lines, want %d", got, lines)
	}
	return w.remove(ctx, name, metav1.DeletePropagationBackground)
}

// failing Jobs fail after a retry, and are deleted by a client that waits for it.
func (w *work) failing(ctx context.Context, name string) error {
	j := job(name, 1, 1, "sh", "-c", "echo oh dear >&2; exit 3")
	j.Spec.BackoffLimit = ptr.To(int32(1))
	end, err := w.ends(ctx, "default", j)
	if err != nil {
		return err
	}
	if !is(end, batchv1.JobFailed) || end.Status.Failed != 2 {
		return fmt.Errorf("must fail twice: %v", end.Status)
	}
	return w.remove(ctx, name, metav1.DeletePropagationForeground)
}

// mounting Jobs have an init container and volumes of several kinds.
func (w *work) mounting(ctx context.Context, name string) error {
	j := job(name, 1, 1, "sh", "-c", "cat /config/greeting /secret/password /info/labels /scratch/note")
	j.Spec.TTLSecondsAfterFinished = ptr.To(int32(0))
	spec := &j.Spec.Template.Spec
	mounts := []corev1.VolumeMount{
		{Name: "scratch", MountPath: "/scratch"}, {Name: "memory", MountPath: "/memory"},
		{Name: "config", MountPath: "/config"}, {Name: "secret", MountPath: "/secret"}, {Name: "info", MountPath: "/info"},
	}
	spec.Containers[0].VolumeMounts = mounts
	spec.InitContainers = []corev1.Container{{
		Name: "first", Image: rig.BusyboxName, VolumeMounts: mounts,
		Command: []string{"sh", "-c", "echo note | tee /scratch/note /memory/note"},
	}}
	spec.Volumes = []corev1.Volume{
		{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{
			Medium: corev1.StorageMediumMemory, SizeLimit: resource.NewQuantity(1<<20, resource.BinarySI),
		}}},
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: shared},
		}}},
		{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: shared}}},
		{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}},
		}}},
	}
	return w.completes(ctx, "default", j)
}

// claiming Jobs have a volume that a claim of the pod's own brings and takes with it.
func (w *work) claiming(ctx context.Context, name string) error {
	j := job(name, 1, 1, "sh", "-c", "echo data >/data/file")
	j.Spec.TTLSecondsAfterFinished = ptr.To(int32(0))
	spec := &j.Spec.Template.Spec
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
		VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim()},
	}}}}
	return w.completes(ctx, "default", j)
}

// kept Jobs stay until a number of later ones have ended.
func (w *work) kept(ctx context.Context, name string) error {
	if err := w.completes(ctx, "default", job(name, 1, 1, "echo", "to be read later")); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finished = append(w.finished, name)
	return nil
}

// trimKept deletes kept Jobs but for the last ones.
func (w *work) trimKept(ctx context.Context, leave int) error {
	for len(w.finished) > leave {
		if err := w.remove(ctx, w.finished[0], metav1.DeletePropagationBackground); err != nil {
			return err
		}
		w.finished = w.finished[1:]
	}
	return nil
}

// deleted Jobs are deleted while their pods run.
func (w *work) deleted(ctx context.Context, name string) error {
	j := job(name, 2, 2, "sleep", "3600")
	_, err := w.watch(ctx, "default", j, ready(2))
	if err != nil {
		return err
	}
	return w.remove(ctx, name, metav1.DeletePropagationBackground)
}

// meeting Jobs have pods that look for their names, which a Service gives them.
func (w *work) meeting(ctx context.Context, name string) error {
	services := w.daemon.CoreV1().Services("default")
	_, err := services.Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{batchv1.JobNameLabel: name}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	j := job(name, 4, 4, "sh", "-c", "until nslookup $HOSTNAME."+name+".default.svc.cluster.local >/dev/null; do sleep 0.05; done")
	j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	j.Spec.TTLSecondsAfterFinished = ptr.To(int32(0))
	j.Spec.Template.Spec.Subdomain = name
	if err := w.completes(ctx, "default", j); err != nil {
		return err
	}
	return services.Delete(ctx, name, metav1.DeleteOptions{})
}

// visiting Jobs run in a namespace that is made for them, and deleted with all that is in it.
func (w *work) visiting(ctx context.Context, name string) error {
	namespaces := w.daemon.CoreV1().Namespaces()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := namespaces.Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := w.completes(ctx, name, job(name, 2, 2, "true")); err != nil {
		return err
	}
	if err := namespaces.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return w.daemon.Until(ctx, "namespace "+name+" is gone", 20*time.Millisecond, func() error {
		_, err := namespaces.Get(ctx, name, metav1.GetOptions{})
		return gone(err)
	})
}

// entered Jobs have a readiness probe, and somebody runs a command in their container.
func (w *work) entered(ctx context.Context, name string) error {
	j := job(name, 1, 1, "sleep", "3600")
	j.Spec.Template.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: 1,
	}
	if _, err := w.watch(ctx, "default", j, ready(1)); err != nil {
		return err
	}
	out, err := w.daemon.Jobctl(ctx, nil, "exec", "job/"+name, "--", "echo", "inside")
	if err != nil {
		return err
	}
	if out != "inside\n" {
		return fmt.Errorf("exec printed %q", out)
	}
	return w.remove(ctx, name, metav1.DeletePropagationForeground)
}

// restarting Jobs have a container that succeeds when it is started again, beside a sidecar, with a mount point of their own.
func (w *work) restarting(ctx context.Context, name string) error {
	scratch := []corev1.VolumeMount{{Name: "scratch", MountPath: "/" + name}}
	j := job(name, 1, 1, "sh", "-c", fmt.Sprintf("[ -e /%[1]s/again ] || { touch /%[1]s/again; exit 1; }", name))
	j.Spec.TTLSecondsAfterFinished = ptr.To(int32(0))
	spec := &j.Spec.Template.Spec
	spec.RestartPolicy = corev1.RestartPolicyOnFailure
	spec.Containers[0].VolumeMounts = scratch
	spec.InitContainers = []corev1.Container{{
		Name: "beside", Image: rig.BusyboxName, Command: []string{"sleep", "3600"},
		RestartPolicy: ptr.To(corev1.ContainerRestartPolicyAlways),
	}}
	spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	return w.completes(ctx, "default", j)
}

// guarded Jobs have users of their own, and a NetworkPolicy that comes and goes with them.
func (w *work) guarded(ctx context.Context, name string) error {
	policies := w.daemon.NetworkingV1().NetworkPolicies("default")
	_, err := policies.Create(ctx, &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{batchv1.JobNameLabel: name}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{
				IPBlock: &networkingv1.IPBlock{CIDR: "192.0.2.0/24"},
			}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	j := job(name, 1, 1, "cat", "/proc/self/uid_map")
	j.Spec.Template.Spec.HostUsers = ptr.To(false)
	if err := w.completes(ctx, "default", j); err != nil {
		return err
	}
	if err := w.remove(ctx, name, metav1.DeletePropagationBackground); err != nil {
		return err
	}
	return policies.Delete(ctx, name, metav1.DeleteOptions{})
}

// asking Jobs connect to the API, whose TLS is too new for busybox: the handshake fails, and the Job with it.
func (w *work) asking(ctx context.Context, name string) error {
	j := job(name, 1, 1, "sh", "-c", "wget -O- https://kubernetes.default.svc.cluster.local/version")
	j.Spec.TTLSecondsAfterFinished, j.Spec.BackoffLimit = ptr.To(int32(0)), ptr.To(int32(0))
	_, err := w.ends(ctx, "default", j)
	return err
}

// storing Jobs share a claim, which a client makes before them and deletes after them.
func (w *work) storing(ctx context.Context, name string) error {
	claims := w.daemon.CoreV1().PersistentVolumeClaims("default")
	if _, err := claims.Create(ctx, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: claim(),
	}, metav1.CreateOptions{}); err != nil {
		return err
	}
	j := job(name, 1, 1, "sh", "-c", "echo data >>/data/file")
	spec := &j.Spec.Template.Spec
	spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}}}
	if err := w.completes(ctx, "default", j); err != nil {
		return err
	}
	if err := w.remove(ctx, name, metav1.DeletePropagationForeground); err != nil {
		return err
	}
	if err := claims.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	return w.daemon.Until(ctx, "claim "+name+" is gone", 20*time.Millisecond, func() error {
		_, err := claims.Get(ctx, name, metav1.GetOptions{})
		return gone(err)
	})
}

// completes runs a Job, which must complete.
func (w *work) completes(ctx context.Context, namespace string, j *batchv1.Job) error {
	end, err := w.ends(ctx, namespace, j)
	if err == nil && !is(end, batchv1.JobComplete) {
		err = fmt.Errorf("has not completed: %v", end.Status)
	}
	return err
}

// ends runs a Job and returns it as it ended.
func (w *work) ends(ctx context.Context, namespace string, j *batchv1.Job) (*batchv1.Job, error) {
	return w.watch(ctx, namespace, j, func(j *batchv1.Job) bool { return batch.End(&j.Status) != nil })
}

// watch creates a Job and returns it as soon as it is as wanted.
func (w *work) watch(
	ctx context.Context, namespace string, j *batchv1.Job, wanted func(*batchv1.Job) bool,
) (*batchv1.Job, error) {
	jobs := w.daemon.BatchV1().Jobs(namespace)
	events, err := jobs.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + j.Name})
	if err != nil {
		return nil, err
	}
	defer events.Stop()
	if _, err := jobs.Create(ctx, j, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	for e := range events.ResultChan() {
		if seen, ok := e.Object.(*batchv1.Job); ok && wanted(seen) {
			return seen, nil
		} else if !ok {
			return nil, apierrors.FromObject(e.Object)
		}
	}
	return nil, errors.Join(errors.New("the watch has ended"), ctx.Err())
}

// ready returns what reports whether n pods of a Job are ready.
func ready(n int32) func(*batchv1.Job) bool {
	return func(j *batchv1.Job) bool { return j.Status.Ready != nil && *j.Status.Ready == n }
}

func is(j *batchv1.Job, condition batchv1.JobConditionType) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == condition && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// pod returns the name of a Job's only pod.
func (w *work) pod(ctx context.Context, namespace, job string) (string, error) {
	pods, err := w.daemon.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job})
	if err != nil {
		return "", err
	}
	if len(pods.Items) != 1 {
		return "", fmt.Errorf("%d pods", len(pods.Items))
	}
	return pods.Items[0].Name, nil
}

// remove deletes a Job and waits until it is gone, and so are its pods.
func (w *work) remove(ctx context.Context, name string, how metav1.DeletionPropagation) error {
	jobs := w.daemon.BatchV1().Jobs("default")
	if err := jobs.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &how}); err != nil {
		return err
	}
	return w.daemon.Until(ctx, name+" is gone", 20*time.Millisecond, func() error {
		if _, err := jobs.Get(ctx, name, metav1.GetOptions{}); gone(err) != nil {
			return gone(err)
		}
		pods, err := w.daemon.CoreV1().Pods("default").List(ctx, metav1.ListOptions{
			LabelSelector: batchv1.JobNameLabel + "=" + name, Limit: 1,
		})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("pod %s is there", pods.Items[0].Name)
		}
		return err
	})
}

// gone returns nil for the error of reading an object that does not exist.
func gone(err error) error {
	if err == nil {
		return errors.New("it is there")
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// deleteAll deletes all Jobs and CronJobs, and waits until they and all pods are gone.
func (w *work) deleteAll(ctx context.Context) error {
	w.finished = nil
	how := metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}
	if err := w.daemon.BatchV1().CronJobs("default").DeleteCollection(ctx, how, metav1.ListOptions{}); err != nil {
		return err
	}
	return w.daemon.Until(ctx, "no Jobs and pods are left", 20*time.Millisecond, func() error {
		if err := w.daemon.BatchV1().Jobs("default").DeleteCollection(ctx, how, metav1.ListOptions{}); err != nil {
			return err
		}
		jobs, err := w.daemon.BatchV1().Jobs("").List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(jobs.Items) > 0 {
			err = fmt.Errorf("job %s is left", jobs.Items[0].Name)
		}
		if err != nil {
			return err
		}
		pods, err := w.daemon.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("pod %s is left", pods.Items[0].Name)
		}
		return err
	})
}

// latencies runs n Jobs one by one and returns how long each took from its creation to its first line, in ms, as the time
// stamp of the line has it.
func (w *work) latencies(ctx context.Context, n int) (ms []float64, err error) {
	for range n {
		w.n++
		name := fmt.Sprintf("probe-%d", w.n)
		begin := time.Now()
		if err := w.completes(ctx, "default", job(name, 1, 1, "echo", "here")); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		pod, err := w.pod(ctx, "default", name)
		if err != nil {
			return nil, err
		}
		line, err := w.daemon.logs(ctx, "default", pod, &corev1.PodLogOptions{Timestamps: true})
		if err != nil {
			return nil, err
		}
		stamp, _, _ := strings.Cut(line, " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err != nil {
			return nil, fmt.Errorf("log of %s: %w", name, err)
		}
		ms = append(ms, at.Sub(begin).Seconds()*1000)
		if err := w.remove(ctx, name, metav1.DeletePropagationBackground); err != nil {
			return nil, err
		}
	}
	return ms, nil
}
