package causes_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/node"
	"github.com/jobd/jobd/daemon/picture"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/dashboard/terminal"
	"github.com/jobd/jobd/submit/progress"
)

var now = time.Unix(1_700_000_000, 0)

// drawJob makes a Job with any status, also with those that no controller writes.
func drawJob(t *rapid.T) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n", UID: "u", CreationTimestamp: metav1.NewTime(now)}}
	j.Spec.Completions = ptr.To[int32](3)
	j.Spec.Suspend = rapid.SampledFrom([]*bool{nil, ptr.To(false), ptr.To(true)}).Draw(t, "suspend")
	if rapid.Bool().Draw(t, "deleted") {
		j.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	}
	if rapid.Bool().Draw(t, "started") {
		j.Status.StartTime = ptr.To(metav1.NewTime(now))
	}
	count := rapid.Int32Range(0, 2)
	j.Status.Active, j.Status.Failed, j.Status.Succeeded = count.Draw(t, "active"), count.Draw(t, "failed"), count.Draw(t, "succeeded")
	j.Status.Ready = rapid.SampledFrom([]*int32{nil, ptr.To[int32](0), ptr.To[int32](1)}).Draw(t, "ready")
	for _, kind := range []batchv1.JobConditionType{
		batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet, batchv1.JobSuspended,
	} {
		if status := rapid.SampledFrom([]corev1.ConditionStatus{"", corev1.ConditionFalse, corev1.ConditionTrue}).Draw(t, string(kind)); status != "" {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{
				Type: kind, Status: status, Reason: "Because", LastTransitionTime: metav1.NewTime(now),
			})
		}
	}
	return j
}

// TestOneWordForAState asks every view for the state of the same Job. What the page in the browser says is compared by
// TestStatesInABrowser of daemon/e2e.
func TestOneWordForAState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := drawJob(t)
		want := batch.State(j)
		if said := causes.Job(causes.World{Now: now, Source: why.FromRecords}, j, nil); said.State != want {
			t.Errorf("why says %s instead of %s", said.State, want)
		}
		drawn := picture.Draw(picture.Subject{Job: j}, picture.NewAttempts("j", false), nil, now)
		if drawn.Job.State != want {
			t.Errorf("the picture says %s instead of %s", drawn.Job.State, want)
		}
		if word, _, _ := progress.JobState(j); word != strings.ToLower(want) {
			t.Errorf("submit and report say %s instead of %s", word, want)
		}
		var m progress.Model
		m.SetJob(&batchv1.Job{ObjectMeta: j.ObjectMeta, Spec: batchv1.JobSpec{Suspend: ptr.To(!ptr.Deref(j.Spec.Suspend, false))}}, now)
		for _, e := range m.SetJob(j, now) {
			if e.State != strings.ToLower(want) {
				t.Errorf("an event of submit says %s instead of %s", e.State, want)
			}
		}
		list := terminal.Overview([]batchv1.Job{*j}, nil, 0, now, terminal.Style{Width: 120, Height: 10})
		if !strings.Contains(strings.Join(list, "\n"), want) {
			t.Errorf("watch does not say %s: %q", want, list)
		}
	})
}

// waitingPod is a pod on the node, one of whose containers waits.
func waitingPod(reason, message string) *corev1.Pod {
	p := newPod()
	p.Spec.NodeName = "here"
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	}}}
	return p
}

func newPod() *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "j-x", Namespace: "n", UID: "p", CreationTimestamp: metav1.NewTime(now)}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybx:1.36"}}
	p.Status.Phase = corev1.PodPending
	return p
}

// reasonCase is something that a Job waits for.
type reasonCase struct {
	pod    *corev1.Pod
	world  causes.World
	reason string
	help   string // in a command that helps
}

// reasons are all that there are, by their names: the obstacles of a scheduler, its shortages, claims, the waiting reasons of
// containers, and the steps of the set-up.
func reasons() map[string]reasonCase {
	room := func(r node.Room) causes.World {
		r.Node = "here"
		return causes.World{Rooms: map[types.UID]node.Room{"p": r}}
	}
	short := func(name corev1.ResourceName, request, free, allocatable int64) causes.World {
		return room(node.Room{Short: []node.Shortage{{Resource: name, Request: request, Free: free, Allocatable: allocatable}}})
	}
	claim := func(w causes.ClaimWait) causes.World {
		w.Claim = "data"
		return causes.World{Claims: map[types.UID]causes.ClaimWait{"p": w}}
	}
	lacks := func(kind string) causes.World {
		return causes.World{Missing: func(k, _, _ string) (bool, bool) { return k == kind, true }}
	}
	event := func(reason, message string) causes.World {
		return causes.World{Events: []corev1.Event{{
			InvolvedObject: corev1.ObjectReference{UID: "p"}, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(now),
		}}}
	}
	with := func(change func(*corev1.Pod)) *corev1.Pod {
		p := newPod()
		change(p)
		return p
	}
	from := func(p *corev1.Pod, source corev1.EnvVarSource) *corev1.Pod {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &source}}
		return p
	}
	named := corev1.LocalObjectReference{Name: "db"}
	setUp := waitingPod("ContainerCreating", "")
	all := map[string]reasonCase{
		"cpu":        {newPod(), short("cpu", 2000, 0, 2000), "no room for 2 CPUs (0 free)", ""},
		"memory":     {newPod(), short("memory", 4<<30, 3<<29, 8<<30), "no room for 4Gi of memory (1.5Gi free)", ""},
		"device":     {newPod(), short("nvidia.com/gpu", 2, 1, 2), "no room for 2 nvidia.com/gpu (1 free)", ""},
		"too large":  {newPod(), short("memory", 640<<30, 0, 24581692<<10), "never fits: it requests 640Gi of memory, and this machine has 23.4Gi", ""},
		"no device":  {newPod(), short("nvidia.com/gpu", 1, 0, 0), "no device nvidia.com/gpu is known on this machine", "nvidia-ctk cdi generate"},
		"port":       {newPod(), room(node.Room{Ports: []int32{80}}), "host port 80 is in use", ""},
		"full":       {newPod(), room(node.Room{Full: true, MaxPods: 110}), "110 pods are here already (--max-pods)", ""},
		"gate":       {with(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a/b"}} }), causes.World{}, "scheduling gates: a/b", ""},
		"other node": {with(func(p *corev1.Pod) { p.Spec.NodeName = "there" }), causes.World{Node: "here"}, "spec.nodeName is there, and this machine is here", ""},
		"no group":   {newPod(), room(node.Room{Gang: &node.GangWait{Key: "n/g", Need: 2}}), "PodGroup g does not exist", ""},
		"small gang": {newPod(), room(node.Room{Gang: &node.GangWait{Key: "n/g", Known: true, Need: 3, Waiting: 1}}), "gang g: 1 of 3 pods are there", ""},
		"gang":       {newPod(), room(node.Room{Gang: &node.GangWait{Key: "n/g", Known: true, Need: 3, Waiting: 3, Fitting: 1}}), "gang g: room for 1 of 3 pods", ""},
		"a cluster": {with(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Message: "0/9 nodes."}}
		}), causes.World{}, "0/9 nodes", ""},
		"local volume": {newPod(), claim(causes.ClaimWait{Volume: "pv", Hosts: "kubernetes.io/hostname in (b)", Why: "x"}), "volume pv is for another machine: kubernetes.io/hostname in (b)", ""},
		"one pod":      {newPod(), claim(causes.ClaimWait{User: &why.Reference{Kind: "Pod", Name: "other"}, Why: "x"}), "claim data is in use by pod other", ""},
		"unbound":      {newPod(), claim(causes.ClaimWait{Why: "pod has unbound immediate PersistentVolumeClaims"}), "claim data: pod has unbound immediate PersistentVolumeClaims", "describe pvc/data"},
		"provisioning": {newPod(), claim(causes.ClaimWait{}), "claim data: its volume is being made", ""},

		"no Secret": {
			from(waitingPod(pod.CreateContainerConfig, "secret \"db\" not found"), corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named}}),
			lacks("Secret"), "Secret db does not exist", "create secret generic db",
		},
		"no ConfigMap": {
			from(waitingPod(pod.CreateContainerConfig, "configmap \"db\" not found"), corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named}}),
			lacks("ConfigMap"), "ConfigMap db does not exist", "create configmap db",
		},
		"no claim": {with(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
		}), func() causes.World {
			w := claim(causes.ClaimWait{Why: "persistentvolumeclaim \"data\" not found"})
			w.Missing = lacks("PersistentVolumeClaim").Missing
			return w
		}(), "PersistentVolumeClaim data does not exist", ""},
		"init container": {with(func(p *corev1.Pod) {
			p.Spec.NodeName = "here"
			p.Spec.InitContainers = []corev1.Container{{Name: "i"}}
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "i", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			p.Status.ContainerStatuses = waitingPod("PodInitializing", "").Status.ContainerStatuses
		}), causes.World{}, "init container i runs", "logs pods/j-x -n n -c i"},
		"probe": {with(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase = "here", corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: "False"}}
		}), event("Unhealthy", "Readiness probe failed: no"), "not ready: Readiness probe failed: no", ""},
		"not ready": {with(func(p *corev1.Pod) {
			p.Spec.NodeName, p.Status.Phase = "here", corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: "False", Message: "containers with unready status: [c]"}}
		}), causes.World{}, "not ready: containers with unready status: [c]", ""},

		"FailedMount":              {setUp, event("FailedMount", `MountVolume.SetUp failed for volume "v" : no such directory`), "volume v: no such directory", ""},
		"FailedAttachVolume":       {setUp, event("FailedAttachVolume", "no device"), "no device", ""},
		"FailedCreatePodSandBox":   {setUp, event("FailedCreatePodSandBox", "no address is left"), "no address is left", ""},
		"FailedCreatePodContainer": {setUp, event("FailedCreatePodContainer", "no cgroup"), "no cgroup", ""},
		"StuckStep":                {setUp, event("StuckStep", "mount takes long"), "mount takes long", ""},

		"ContainerCreating": {setUp, causes.World{}, "its containers are being created", ""},
		"PodInitializing":   {waitingPod("PodInitializing", ""), causes.World{}, "its containers are being created", ""},
		pod.ErrImagePull:    {waitingPod(pod.ErrImagePull, "pull docker.io/library/busybx:1.36: no such host"), causes.World{}, "cannot pull busybx:1.36", "image import"},
		"ImagePullBackOff":  {waitingPod("ImagePullBackOff", "Back-off pulling image: ErrImagePull: no such host"), causes.World{}, "cannot pull busybx:1.36", "image import"},
		pod.ErrImageNeverPull: {
			waitingPod(pod.ErrImageNeverPull, "x"), causes.World{}, "image busybx:1.36 is not here, and imagePullPolicy is Never", "image import",
		},
		pod.InvalidImageName:      {waitingPod(pod.InvalidImageName, "x"), causes.World{}, `"busybx:1.36" is not the name of an image`, ""},
		pod.CreateContainerConfig: {waitingPod(pod.CreateContainerConfig, "couldn't find key k in Secret n/db"), causes.World{}, "couldn't find key k in Secret n/db", ""},
		pod.CreateContainer:       {waitingPod(pod.CreateContainer, "no such user"), causes.World{}, "no such user", ""},
		pod.RunContainer:          {waitingPod(pod.RunContainer, "permission denied"), causes.World{}, "permission denied", ""},
		"PostStartHookError":      {waitingPod("PostStartHookError", "the hook has failed"), causes.World{}, "the hook has failed", ""},
		"CrashLoopBackOff": {func() *corev1.Pod {
			p := waitingPod("CrashLoopBackOff", "back-off 10s restarting failed container")
			p.Status.Phase, p.Spec.RestartPolicy = corev1.PodRunning, corev1.RestartPolicyOnFailure
			s := &p.Status.ContainerStatuses[0]
			s.RestartCount, s.ContainerID = 3, "jobd://x"
			s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", FinishedAt: metav1.NewTime(now)}
			return p
		}(), causes.World{}, "crash loop: exit code 3 of container c", "logs pods/j-x"},
	}
	cordon := &corev1.Taint{Key: "gpu", Value: "only", Effect: corev1.TaintEffectNoSchedule}
	for kind, help := range map[node.ObstacleKind]string{
		node.Cordoned: "uncordon here", node.Tainted: "", node.WrongSelector: "label node here", node.WrongAffinity: "label node here",
		node.LacksTopology: "label node here", node.BadlySpread: "", node.LacksCompany: "", node.UnwantedCompany: "", node.UnwantedByOthers: "",
		node.TooManyRules: "",
	} {
		o := node.Obstacle{Kind: kind, Brief: "brief of " + string(kind), Message: "message", Taint: cordon}
		if strings.HasPrefix(help, "label") {
			o.Labels = []string{"a=b"}
		}
		all["unfit "+string(kind)] = reasonCase{newPod(), room(node.Room{Unfit: []node.Obstacle{o}}), o.Brief, help}
		all["apart "+string(kind)] = reasonCase{newPod(), room(node.Room{Apart: []node.Obstacle{o}}), o.Brief, help}
	}
	full := room(node.Room{Unfit: []node.Obstacle{{Kind: node.Tainted, Taint: &corev1.Taint{Key: corev1.TaintNodeDiskPressure}}}})
	full.Disk = &causes.DiskPressure{Path: "/var/lib/jobd", What: "nodefs.available is 12Mi, below 38Mi", Seen: now, Until: now.Add(5 * time.Minute)}
	all["the disk was full"] = reasonCase{newPod(), full, "the disk of /var/lib/jobd was full just now", ""}
	full.Disk = &causes.DiskPressure{Path: "/var/lib/jobd", What: "nodefs.available is 12Mi, below 38Mi", Seen: now, Short: true}
	all["the disk is full"] = reasonCase{newPod(), full, "the disk of /var/lib/jobd is full", "df -h"}
	return all
}

// TestEveryReasonInEveryView asks each view for each reason that there is: it says the deepest cause, in the same words, and
// never that there is none.
func TestEveryReasonInEveryView(t *testing.T) {
	for name, tc := range reasons() {
		t.Run(name, func(t *testing.T) {
			j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j", Namespace: "n", UID: "u"}}
			j.Status.Active, j.Status.StartTime = 1, ptr.To(metav1.NewTime(now))
			w := tc.world
			w.Now, w.Source = now, why.FromRecords
			said, alone := causes.Job(w, j, []*corev1.Pod{tc.pod}), causes.Pod(w, tc.pod, j)
			for _, e := range []*why.Explanation{said, alone} {
				if e.Reason != tc.reason || !strings.Contains(e.Message, tc.reason) || why.Find(e.Causes, "StartsSoon") != nil {
					t.Errorf("the reason is %q, want %q; %s %+v", e.Reason, tc.reason, e.Message, e.Causes)
				}
				var help strings.Builder
				if err := why.Print(&help, e); err != nil || !strings.Contains(help.String(), tc.help) {
					t.Errorf("no %q in\n%s", tc.help, help.String())
				}
			}
			if len([]rune(said.Reason)) > 130 || strings.Contains(said.Reason, "\n") {
				t.Errorf("%q is too long for a list", said.Reason)
			}
			list := terminal.Overview([]batchv1.Job{*j}, map[types.UID]string{"u": said.Reason}, 0, now, terminal.Style{Width: 200, Height: 10})
			if !strings.Contains(strings.Join(list, "\n"), tc.reason) {
				t.Errorf("the list of watch is %q", list)
			}
			drawn := picture.Draw(picture.Subject{Job: j}, picture.NewAttempts("j", false), nil, now)
			view := terminal.View{Picture: *drawn.Picture, Why: said.Reason}
			if lines := terminal.Draw(&view, 0, terminal.Style{Width: 200, Height: 10}); !strings.Contains(strings.Join(lines, "\n"), tc.reason) {
				t.Errorf("the picture of watch is %q", lines)
			}
			var m progress.Model
			m.SetJob(j, now)
			m.SetWhy(said.Reason)
			if m.Why() != tc.reason {
				t.Errorf("submit says %q", m.Why())
			}
		})
	}
}

// TestReasonsAreComplete looks through the sources for reasons that no case of TestEveryReasonInEveryView has.
func TestReasonsAreComplete(t *testing.T) {
	cases := reasons()
	ends := []string{ // reasons of containers that have ended, and of conditions
		"Completed", "Error", "OOMKilled", "StartError", "ContainerStatusUnknown", "PodCompleted", "PodFailed", "ContainersNotInitialized",
		"ContainersNotReady", "ReadinessGatesNotReady", "PodSandboxNotReady", "DeadlineExceeded",
	}
	for _, word := range constants(t, "../pod/reasons.go", regexp.MustCompile(`^(reason|[A-Z])`)) {
		if _, ok := cases[word]; !ok && !slices.Contains(ends, word) {
			t.Errorf("no case has the reason %s of a container", word)
		}
	}
	for _, kind := range constants(t, "../node/obstacle.go", regexp.MustCompile(`^[A-Z]`)) {
		if _, ok := cases["unfit "+kind]; !ok {
			t.Errorf("no case has the obstacle %s", kind)
		}
	}
}

// constants returns the values of the constants of a file whose names match.
func constants(t *testing.T, path string, names *regexp.Regexp) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.ValueSpec); ok && len(s.Names) == 1 && len(s.Values) == 1 && names.MatchString(s.Names[0].Name) {
			if literal, ok := s.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
				value, _ := strconv.Unquote(literal.Value)
				values = append(values, value)
			}
		}
		return true
	})
	if len(values) == 0 {
		t.Fatalf("%s has no constants", path)
	}
	return values
}
