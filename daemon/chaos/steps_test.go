package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/daemon/controltest"
	"github.com/jobd/jobd/runtime/simulated"
)

// step is one thing that happens. Its own seed decides how, so that a plan without some of its steps has the others as they were.
type step struct {
	kind string
	seed uint64
}

func (s step) String() string { return fmt.Sprintf("%s/%d", s.kind, s.seed) }

// kinds are the steps, and how often each is drawn.
var kinds = []struct {
	name  string
	often int
	do    func(*universe, *rand.Rand)
}{
	{"create", 8, (*universe).createJob},
	{"wait", 8, func(u *universe, r *rand.Rand) { u.sleep(time.Duration(r.ExpFloat64() * float64(20*time.Second))) }},
	{"cron", 1, (*universe).createCronJob},
	{"jobset", 2, (*universe).createJobSet},
	{"delete jobset", 1, func(u *universe, r *rand.Rand) {
		if all := u.jobSets(); len(all) > 0 {
			u.said(u.deleteJobSet(all[r.IntN(len(all))]))
		}
	}},
	{"suspend jobset", 1, func(u *universe, r *rand.Rand) {
		if all := u.jobSets(); len(all) > 0 {
			u.suspendJobSet(all[r.IntN(len(all))], r.IntN(2) == 0)
		}
	}},
	{"suspend", 2, patchJob(func(_ *rand.Rand, j *batchv1.Job) string {
		return fmt.Sprintf(`{"spec":{"suspend":%t}}`, !ptr.Deref(j.Spec.Suspend, false))
	})},
	{"pause", 1, patchJob(func(_ *rand.Rand, j *batchv1.Job) string {
		if batch.Paused(j.Annotations) {
			return fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, batch.PausedAnnotation)
		}
		return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, batch.PausedAnnotation, time.Now().Format(time.RFC3339Nano))
	})},
	{"parallelism", 2, patchJob(func(r *rand.Rand, _ *batchv1.Job) string {
		return fmt.Sprintf(`{"spec":{"parallelism":%d}}`, r.IntN(5))
	})},
	{"deadline", 1, patchJob(func(r *rand.Rand, _ *batchv1.Job) string {
		return fmt.Sprintf(`{"spec":{"activeDeadlineSeconds":%d}}`, 1+r.IntN(300))
	})},
	{"prioritize", 1, patchJob(func(*rand.Rand, *batchv1.Job) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, batch.PrioritizedAnnotation, time.Now().Format(time.RFC3339Nano))
	})},
	{"retry", 2, func(u *universe, r *rand.Rand) {
		if j := u.anyJob(r); j != nil {
			u.said(u.client.BatchV1().RESTClient().Post().Namespace(j.Namespace).Resource("jobs").Name(j.Name).SubResource("retry").
				SetHeader("Content-Type", "application/json").Body([]byte("{}")).Do(context.Background()).Error())
		}
	}},
	{"delete", 2, func(u *universe, r *rand.Rand) {
		if j := u.anyJob(r); j != nil {
			how := []metav1.DeletionPropagation{
				metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan,
			}[r.IntN(3)]
			u.said(u.client.BatchV1().Jobs(j.Namespace).Delete(context.Background(), j.Name, metav1.DeleteOptions{PropagationPolicy: &how}))
		}
	}},
	{"delete pod", 2, func(u *universe, r *rand.Rand) {
		if p := u.anyPod(r); p != nil {
			u.said(u.client.CoreV1().Pods(p.Namespace).Delete(context.Background(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(r.Int64N(30))}))
		}
	}},
	{"evict", 1, func(u *universe, r *rand.Rand) {
		if p := u.anyPod(r); p != nil {
			u.said(u.client.CoreV1().Pods(p.Namespace).EvictV1(context.Background(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}))
		}
	}},
	{"quota", 1, func(u *universe, r *rand.Rand) {
		quotas := u.client.CoreV1().ResourceQuotas("default")
		u.said(quotas.Delete(context.Background(), "q", metav1.DeleteOptions{}))
		if r.IntN(3) > 0 {
			q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q"}}
			q.Spec.Hard = corev1.ResourceList{
				"requests.cpu": resource.MustParse(fmt.Sprint(2 + r.IntN(5))), "pods": resource.MustParse(fmt.Sprint(2 + r.IntN(20))),
			}
			_, err := quotas.Create(context.Background(), q, metav1.CreateOptions{})
			u.said(err)
		}
	}},
	{"restart", 2, func(u *universe, r *rand.Rand) {
		u.watch.look()
		u.total.restarts++
		u.Stop()
		time.Sleep(time.Duration(r.IntN(60)) * time.Second)
		u.start()
	}},
	{"kill", 3, func(u *universe, _ *rand.Rand) {
		u.mu.Lock()
		u.kill()
		u.mu.Unlock()
	}},
	{"kill at a call", 5, func(u *universe, r *rand.Rand) {
		u.mu.Lock()
		u.crashIn = 1 + r.IntN(30)
		u.mu.Unlock()
	}},
	{"faults", 3, func(u *universe, r *rand.Rand) {
		u.mu.Lock()
		u.faults = faults{refuse: r.IntN(200) * r.IntN(2), hang: r.IntN(300) * r.IntN(2), answer: r.IntN(100) * r.IntN(2)}
		u.mu.Unlock()
	}},
	{"disk", 1, func(u *universe, r *rand.Rand) {
		u.mu.Lock()
		u.full = r.IntN(2) == 0
		u.mu.Unlock()
	}},
	{"database", 3, func(u *universe, r *rand.Rand) {
		do := func() error { return u.disk.fill(r) }
		if r.IntN(2) == 0 {
			do = u.disk.empty
		} else {
			u.total.filled++
		}
		if err := do(); err != nil {
			u.T.Error(err)
		}
	}},
	{"clock", 1, func(u *universe, r *rand.Rand) {
		if r.IntN(3) == 0 {
			u.SetClock(time.Duration(r.IntN(600)-300) * time.Second)
		}
	}},
}

// draw makes a plan.
func draw(seed uint64, n int) (plan []step) {
	r := rand.New(rand.NewPCG(seed, 2))
	var lots []string
	for _, k := range kinds {
		for range k.often {
			lots = append(lots, k.name)
		}
	}
	for range n {
		plan = append(plan, step{lots[r.IntN(len(lots))], r.Uint64()})
	}
	return plan
}

// do carries out a step. The daemon may end during it.
func (u *universe) do(s step) {
	r := rand.New(rand.NewPCG(s.seed, 3))
	for _, k := range kinds {
		if k.name == s.kind {
			k.do(u, r)
		}
	}
	u.sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
	if u.isDead() {
		u.revive(time.Duration(r.IntN(60_000)) * time.Millisecond)
	}
	u.watch.look()
}

// sleep lets time go by, or until the daemon ends.
func (u *universe) sleep(d time.Duration) {
	for end := time.Now().Add(d); !u.isDead(); {
		left := time.Until(end)
		if left <= 0 {
			break
		}
		time.Sleep(min(left, 3*time.Second))
		u.watch.look()
	}
	synctest.Wait()
}

// said takes an answer: a refusal is one, but nothing may go wrong in the daemon.
func (u *universe) said(err error) {
	if status := apierrors.APIStatus(nil); err != nil && !u.isDead() && !(asStatus(err, &status) && status.Status().Code < 500) &&
		!apierrors.IsInternalError(err) {
		u.violated("a client is told: %v", err)
	}
}

func asStatus(err error, into *apierrors.APIStatus) (ok bool) {
	*into, ok = err.(apierrors.APIStatus)
	return ok
}

func (u *universe) anyJob(r *rand.Rand) *batchv1.Job {
	list, err := u.client.BatchV1().Jobs("").List(context.Background(), metav1.ListOptions{})
	if u.said(err); err != nil || len(list.Items) == 0 {
		return nil
	}
	return &list.Items[r.IntN(len(list.Items))]
}

func (u *universe) anyPod(r *rand.Rand) *corev1.Pod {
	list, err := u.client.CoreV1().Pods("").List(context.Background(), metav1.ListOptions{})
	if u.said(err); err != nil || len(list.Items) == 0 {
		return nil
	}
	return &list.Items[r.IntN(len(list.Items))]
}

func patchJob(patch func(*rand.Rand, *batchv1.Job) string) func(*universe, *rand.Rand) {
	return func(u *universe, r *rand.Rand) {
		j := u.anyJob(r)
		if j == nil {
			return
		}
		_, err := u.client.BatchV1().Jobs(j.Namespace).Patch(context.Background(), j.Name, types.MergePatchType, []byte(patch(r, j)), metav1.PatchOptions{})
		u.said(err)
	}
}

func (u *universe) createJob(r *rand.Rand) {
	j := randomJob(r)
	if list, err := u.client.BatchV1().Jobs("default").List(context.Background(), metav1.ListOptions{}); err == nil && len(list.Items) > 0 && r.IntN(6) == 0 {
		after := list.Items[r.IntN(len(list.Items))].Name
		j.Annotations[batch.AfterAnnotation], j.Spec.Suspend = after+":"+[]string{batch.NeedOK, batch.NeedAny}[r.IntN(2)], ptr.To(true)
	}
	_, err := u.client.BatchV1().Jobs("default").Create(context.Background(), j, metav1.CreateOptions{})
	u.said(err)
}

func (u *universe) createCronJob(r *rand.Rand) {
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{GenerateName: "cron-"}, Spec: batchv1.CronJobSpec{
		Schedule:          fmt.Sprintf("*/%d * * * *", 1+r.IntN(5)),
		ConcurrencyPolicy: []batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent}[r.IntN(3)],
	}}
	cj.Spec.JobTemplate.Spec = randomJob(r).Spec
	_, err := u.client.BatchV1().CronJobs("default").Create(context.Background(), cj, metav1.CreateOptions{})
	u.said(err)
}

// randomJob is a Job that uses some of what Jobs can have.
func randomJob(r *rand.Rand) *batchv1.Job {
	j := controltest.Simulate("", fmt.Sprintf("%d.%ds", r.IntN(60), r.IntN(10)), "0")
	j.GenerateName, j.Annotations = "j-", map[string]string{}
	s := &j.Spec
	s.Template.Spec.Containers = controltest.Asking([]string{"500m", "1", "2"}[r.IntN(3)])
	s.Template.Spec.RestartPolicy = []corev1.RestartPolicy{corev1.RestartPolicyNever, corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure}[r.IntN(3)]
	s.Parallelism, s.BackoffLimit = ptr.To(r.Int32N(5)), ptr.To(r.Int32N(4))
	codes := []string{"0", "0", "0", "1", "1,1,0", "42"}[r.IntN(6)]
	if r.IntN(2) == 0 {
		s.CompletionMode, s.Completions = ptr.To(batchv1.IndexedCompletion), ptr.To(1+r.Int32N(6))
		var all []string
		for i := range *s.Completions {
			if code := []int{0, 0, 0, 1, 42}[r.IntN(5)]; code > 0 {
				all = append(all, fmt.Sprintf("%d:%d", i, code))
			}
		}
		if codes = "0"; len(all) > 0 {
			codes = strings.Join(all, ",")
		}
		switch r.IntN(4) {
		case 0:
			s.BackoffLimit, s.BackoffLimitPerIndex = nil, ptr.To(r.Int32N(3))
			s.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		case 1:
			s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{{SucceededCount: ptr.To(1 + r.Int32N(*s.Completions))}}}
		}
	} else if r.IntN(3) > 0 {
		s.Completions = ptr.To(1 + r.Int32N(6))
	}
	s.Template.Annotations[simulated.ExitCode] = codes
	if s.Template.Spec.RestartPolicy == corev1.RestartPolicyNever && r.IntN(3) == 0 {
		s.PodFailurePolicy = &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
			Action:      []batchv1.PodFailurePolicyAction{batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore}[r.IntN(2)],
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{42}},
		}}}
		if s.PodFailurePolicy.Rules[0].Action == batchv1.PodFailurePolicyActionIgnore { // for ever
			s.ActiveDeadlineSeconds = ptr.To[int64](600)
		}
	}
	if r.IntN(4) == 0 {
		s.ActiveDeadlineSeconds = ptr.To(1 + r.Int64N(200))
	}
	if r.IntN(5) == 0 {
		s.TTLSecondsAfterFinished = ptr.To(r.Int32N(100))
	}
	if r.IntN(5) == 0 {
		s.Template.Spec.ActiveDeadlineSeconds = ptr.To(1 + r.Int64N(60))
	}
	if r.IntN(6) == 0 {
		claim := &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		}}
		claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
		s.Template.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: claim},
		}}}
	}
	if s.CompletionMode != nil && r.IntN(4) == 0 { // a gang, where those are on
		s.Parallelism = s.Completions
		s.Template.Spec.Containers = controltest.Asking("500m")
	}
	if r.IntN(5) == 0 {
		j.Annotations[core.ConcurrencyGroupAnnotation] = []string{"db", "net"}[r.IntN(2)]
		j.Annotations[core.ConcurrencyLimitAnnotation] = fmt.Sprint(1 + r.IntN(2))
		j.Annotations[core.ConcurrencyPolicyAnnotation] = []string{core.QueueConcurrent, core.ReplaceConcurrent, core.ForbidConcurrent}[r.IntN(3)]
	}
	if r.IntN(6) == 0 {
		j.Annotations[core.PreemptByAnnotation] = []string{core.PreemptByPause, core.PreemptByEviction}[r.IntN(2)]
	}
	return j
}
