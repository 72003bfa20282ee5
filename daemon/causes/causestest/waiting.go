package causestest

import (
	"cmp"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/forecast"
	"github.com/jobd/jobd/api/gpus"
	"github.com/jobd/jobd/api/history"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/duty"
	"github.com/jobd/jobd/daemon/fairness"
	"github.com/jobd/jobd/daemon/fit"
	"github.com/jobd/jobd/daemon/pod"
	"github.com/jobd/jobd/daemon/prospect"
	"github.com/jobd/jobd/daemon/requests"
)

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
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "j-x", Namespace: "n", UID: "p", CreationTimestamp: metav1.NewTime(Now)}}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "busybx:1.36"}}
	p.Status.Phase = corev1.PodPending
	return p
}

// ofPod is a row of the table: a pod that waits, the world it waits in, why it does, and part of a command that helps.
type ofPod struct {
	pod    *corev1.Pod
	world  causes.World
	reason string
	help   string
}

// waiting are the cases of a Job whose one pod waits: the obstacles of a scheduler, its shortages, claims, the waiting reasons of
// containers, and the steps of the set-up.
func waiting() map[string]ofPod {
	room := func(r prospect.Room) causes.World {
		r.Node = "here"
		return causes.World{Rooms: map[types.UID]prospect.Room{"p": r}}
	}
	short := func(name corev1.ResourceName, request, free, allocatable int64) causes.World {
		return room(prospect.Room{Short: []prospect.Shortage{{Resource: name, Request: request, Free: free, Allocatable: allocatable}}})
	}
	expects := func(f *forecast.Forecast) causes.World {
		w := short("cpu", 2000, 0, 2000)
		w.Forecast = f
		return w
	}
	at := &forecast.Expected{At: metav1.NewTime(Now.Add(time.Hour)), Basis: forecast.History, Runs: 12}
	claim := func(w causes.ClaimWait) causes.World {
		w.Claim = "data"
		return causes.World{Claims: map[types.UID]causes.ClaimWait{"p": w}}
	}
	lacks := func(kind string) causes.World {
		return causes.World{Missing: func(k, _, _ string) (bool, bool) { return k == kind, true }}
	}
	event := func(reason, message string) causes.World {
		return causes.World{Events: []corev1.Event{{
			InvolvedObject: corev1.ObjectReference{UID: "p"}, Reason: reason, Message: message, LastTimestamp: metav1.NewTime(Now),
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
	inUse := func(used []gpus.GPU, looked bool) causes.World {
		w := room(prospect.Room{Short: []prospect.Shortage{{Resource: "nvidia.com/gpu", Request: 1, Allocatable: 2, Used: 2}}})
		w.InUse = func(corev1.ResourceName) ([]gpus.GPU, bool) { return used, looked }
		return w
	}
	all := map[string]ofPod{
		"cpu":    {newPod(), short("cpu", 2000, 0, 2000), "no room for 2 CPUs (0 free)", ""},
		"memory": {newPod(), short("memory", 4<<30, 3<<29, 8<<30), "no room for 4Gi of memory (1.5Gi free)", ""},
		"asks for more": {
			newPod(), func() causes.World {
				w := short("memory", 30<<30, 3<<30, 32<<30)
				w.Past = func(*batchv1.Job) history.Runs { return history.Runs{Count: 12, Memory: 2 << 30} }
				return w
			}(), "no room for 30Gi of memory (3Gi free)", "history jobs/j -n n --waste",
		},
		"device": {newPod(), short("nvidia.com/gpu", 2, 1, 2), "no room for 2 nvidia.com/gpu (1 free)", ""},
		"device in use": {newPod(), inUse([]gpus.GPU{{Index: 0, Processes: []gpus.Process{
			{PID: 4711, User: "carol", Program: "python", MemoryUsed: new(int64(9 << 30))},
		}}}, true), "GPU 0: pid 4711 of carol (python), 9 GB, not jobd's", "top --gpus"},
		"device in use by whom one may not know": {
			newPod(), inUse([]gpus.GPU{{Index: 1}}, true), "GPU 1: a program that is not jobd's", "top --gpus",
		},
		"device not looked at": {newPod(), inUse(nil, false), "it is being looked who uses the GPUs", ""},
		"no shared device":     {newPod(), short("nvidia.com/gpu.shared", 1, 0, 0), "no device nvidia.com/gpu.shared is known on this machine", "replicas: 4"},
		"too large":            {newPod(), short("memory", 640<<30, 0, 24581692<<10), "never fits: it requests 640Gi of memory, and this machine has 23.4Gi", ""},
		"no device":            {newPod(), short("nvidia.com/gpu", 1, 0, 0), "no device nvidia.com/gpu is known on this machine", "nvidia-ctk cdi generate"},
		"kept for it": {newPod(), room(prospect.Room{
			Short: []prospect.Shortage{{Resource: "cpu", Request: 4000, Free: 1000, Allocatable: 4000}}, Kept: &prospect.Kept{First: "p", Own: true},
		}), "no room for 4 CPUs (1 free)", ""},
		"kept for another": {newPod(), room(prospect.Room{
			Short: []prospect.Shortage{{Resource: "cpu", Request: 1000, Allocatable: 4000, Kept: 4000}}, Kept: &prospect.Kept{First: "large"},
		}), "no room for 1 CPU (0 free)", ""},
		"expected":          {newPod(), expects(&forecast.Forecast{Starts: at}), "no room for 2 CPUs (0 free), " + at.Brief(Now), ""},
		"nobody knows when": {newPod(), expects(&forecast.Forecast{}), "no room for 2 CPUs (0 free)", ""},
		"not its turn": {newPod(), room(prospect.Room{
			Short: []prospect.Shortage{{Resource: "cpu", Request: 4000, Free: 1000, Allocatable: 4000}},
			Fair: &prospect.FairPlace{
				Own: fairness.Account{Name: "namespace n", Used: 100, Share: 1}, First: fairness.Account{Name: "namespace m", Used: 10, Share: 2},
			},
		}), "no room for 4 CPUs (1 free)", ""},
		"port": {newPod(), room(prospect.Room{Ports: []int32{80}}), "host port 80 is in use", ""},
		"full": {newPod(), room(prospect.Room{Full: true, MaxPods: 110}), "110 pods are here already (--max-pods)", ""},
		"gate": {
			with(func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "a/b"}} }), causes.World{},
			"scheduling gates: a/b", "",
		},
		"other node": {
			with(func(p *corev1.Pod) { p.Spec.NodeName = "there" }), causes.World{Node: "here"},
			"spec.nodeName is there, and this machine is here", "",
		},
		"unscheduled in a cluster": {
			with(func(p *corev1.Pod) {
				p.UID, p.Spec.NodeName, p.Spec.SchedulerName = "p", "prod", clusters.Scheduler("prod")
			}),
			causes.World{Node: "here", Events: []corev1.Event{{
				InvolvedObject: corev1.ObjectReference{UID: "p"}, Reason: "FailedScheduling", Message: "0/3 nodes are available.",
				LastTimestamp: metav1.NewTime(Now),
			}}}, "cluster prod: 0/3 nodes are available", "",
		},
		"no group": {newPod(), room(prospect.Room{Gang: &prospect.GangWait{Key: "n/g", Need: 2}}), "PodGroup g does not exist", ""},
		"small gang": {
			newPod(), room(prospect.Room{Gang: &prospect.GangWait{Key: "n/g", Known: true, Need: 3, Waiting: 1}}), "gang g: 1 of 3 pods are there", "",
		},
		"gang": {
			newPod(), room(prospect.Room{Gang: &prospect.GangWait{Key: "n/g", Known: true, Need: 3, Waiting: 3, Fitting: 1}}),
			"gang g: room for 1 of 3 pods", "",
		},
		"unfit gang": {
			newPod(), room(prospect.Room{
				Unfit: []fit.Obstacle{{Kind: fit.Cordoned, Brief: "this machine is cordoned"}},
				Gang:  &prospect.GangWait{Key: "n/g", Known: true, Need: 3, Waiting: 3},
			}),
			"this machine is cordoned", "",
		},
		"a cluster": {with(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Message: "0/9 nodes."}}
		}), causes.World{}, "0/9 nodes", ""},
		"local volume": {
			newPod(), claim(causes.ClaimWait{Volume: "pv", Hosts: "kubernetes.io/hostname in (b)", Why: "x"}),
			"volume pv is for another machine: kubernetes.io/hostname in (b)", "",
		},
		"one pod": {
			newPod(), claim(causes.ClaimWait{User: &why.Reference{Kind: "Pod", Name: "other"}, Why: "x"}),
			"claim data is in use by pod other", "",
		},
		"unbound": {
			newPod(), claim(causes.ClaimWait{Why: "pod has unbound immediate PersistentVolumeClaims"}),
			"claim data: pod has unbound immediate PersistentVolumeClaims", "describe pvc/data",
		},
		"provisioning": {newPod(), claim(causes.ClaimWait{}), "claim data: its volume is being made", ""},

		"no Secret": {
			from(
				waitingPod(duty.CreateContainerConfig, "secret \"db\" not found"),
				corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named}},
			),
			lacks("Secret"), "Secret db does not exist", "create secret generic db",
		},
		"no ConfigMap": {
			from(
				waitingPod(duty.CreateContainerConfig, "configmap \"db\" not found"),
				corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named}},
			),
			lacks("ConfigMap"), "ConfigMap db does not exist", "create configmap db",
		},
		"no claim": {with(func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			}
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

		"FailedMount": {
			setUp, event("FailedMount", `MountVolume.SetUp failed for volume "v" : no such directory`),
			"volume v: no such directory", "",
		},
		"FailedAttachVolume":       {setUp, event("FailedAttachVolume", "no device"), "no device", ""},
		"FailedCreatePodSandBox":   {setUp, event("FailedCreatePodSandBox", "no address is left"), "no address is left", ""},
		"FailedCreatePodContainer": {setUp, event("FailedCreatePodContainer", "no cgroup"), "no cgroup", ""},
		"StuckStep":                {setUp, event("StuckStep", "mount takes long"), "mount takes long", ""},

		"ContainerCreating": {setUp, causes.World{}, "its containers are being created", ""},
		"PodInitializing":   {waitingPod("PodInitializing", ""), causes.World{}, "its containers are being created", ""},
		duty.ErrImagePull: {
			waitingPod(duty.ErrImagePull, "pull docker.io/library/busybx:1.36: no such host"), causes.World{},
			"cannot pull busybx:1.36", "image import",
		},
		"ImagePullBackOff": {
			waitingPod("ImagePullBackOff", "Back-off pulling image: ErrImagePull: no such host"), causes.World{},
			"cannot pull busybx:1.36", "image import",
		},
		duty.ErrImageNeverPull: {
			waitingPod(duty.ErrImageNeverPull, "x"), causes.World{}, "image busybx:1.36 is not here, and imagePullPolicy is Never", "image import",
		},
		duty.InvalidImageName: {waitingPod(duty.InvalidImageName, "x"), causes.World{}, `"busybx:1.36" is not the name of an image`, ""},
		"runs as root": {
			waitingPod(duty.CreateContainerConfig, `container has runAsNonRoot and image will run as root (pod: "j-x_n(12-34)", container: c)`), causes.World{},
			"container has runAsNonRoot and image will run as root", "securityContext.runAsUser",
		},
		duty.CreateContainerConfig: {
			waitingPod(duty.CreateContainerConfig, "couldn't find key k in Secret n/db"), causes.World{},
			"couldn't find key k in Secret n/db", "",
		},
		duty.CreateContainer: {waitingPod(duty.CreateContainer, "no such user"), causes.World{}, "no such user", ""},
		duty.RunContainer:    {waitingPod(duty.RunContainer, "permission denied"), causes.World{}, "permission denied", ""},
		"PostStartHookError": {waitingPod("PostStartHookError", "the hook has failed"), causes.World{}, "the hook has failed", ""},
		"CrashLoopBackOff": {func() *corev1.Pod {
			p := waitingPod("CrashLoopBackOff", "back-off 10s restarting failed container")
			p.Status.Phase, p.Spec.RestartPolicy = corev1.PodRunning, corev1.RestartPolicyOnFailure
			s := &p.Status.ContainerStatuses[0]
			s.RestartCount, s.ContainerID = 3, "jobd://x"
			s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", FinishedAt: metav1.NewTime(Now)}
			return p
		}(), causes.World{}, "crash loop: exit code 3 of container c", "logs pods/j-x"},
	}
	cordon := &corev1.Taint{Key: "gpu", Value: "only", Effect: corev1.TaintEffectNoSchedule}
	for kind, help := range map[fit.Kind]string{
		fit.Cordoned: "uncordon here", fit.Tainted: "", fit.WrongSelector: "label node here", fit.WrongAffinity: "label node here",
		fit.LacksTopology: "label node here", fit.BadlySpread: "", fit.LacksCompany: "", fit.UnwantedCompany: "", fit.UnwantedByOthers: "",
		fit.TooManyRules: "",
	} {
		o := fit.Obstacle{Kind: kind, Brief: "brief of " + string(kind), Message: "message", Taint: cordon}
		if strings.HasPrefix(help, "label") {
			o.Labels = []string{"a=b"}
		}
		all["unfit "+string(kind)] = ofPod{newPod(), room(prospect.Room{Unfit: []fit.Obstacle{o}}), o.Brief, help}
		all["apart "+string(kind)] = ofPod{newPod(), room(prospect.Room{Apart: []fit.Obstacle{o}}), o.Brief, help}
	}
	failing := func(w causes.World, times int) causes.World {
		w.Launchings = map[types.UID][]pod.Launching{"p": {{Container: "c", Failed: times, Next: Now.Add(time.Minute)}}}
		return w
	}
	mount := event("FailedMount", "no such directory")
	all["FailedMount again"] = ofPod{setUp, failing(mount, 2), "no such directory", ""}
	all["FailedMount once"] = ofPod{setUp, failing(mount, 1), "no such directory", ""}
	all["FailedCreatePodSandBox again"] = ofPod{setUp, failing(event("FailedCreatePodSandBox", "no address is left"), 2), "no address is left", ""}
	all["CreateContainerError again"] = ofPod{waitingPod(duty.CreateContainer, "no such user"), failing(causes.World{}, 2), "no such user", ""}

	unmade := func(reason, message string) causes.World {
		w := claim(causes.ClaimWait{})
		w.Claim = func(_, name string) (*corev1.PersistentVolumeClaim, *corev1.Event) {
			obj := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "n"}}
			obj.Spec.StorageClassName, obj.Status.Phase = ptr.To("gp3"), corev1.ClaimPending
			return obj, &corev1.Event{Reason: reason, Message: message}
		}
		return w
	}
	claims := with(func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}}
	})
	all["foreign provisioner"] = ofPod{
		claims, unmade("ExternalProvisioning", "waiting"), "claim data: nothing here makes volumes of the class gp3", "",
	}
	all["provisioning fails"] = ofPod{
		claims, unmade("ProvisioningFailed", "no space"), "claim data: no volume is made for it: no space", "",
	}
	all["held by others"] = ofPod{newPod(), func() causes.World {
		r := prospect.Room{Node: "here", Short: []prospect.Shortage{{Resource: "cpu", Request: 2000, Free: 0, Allocatable: 2000}}}
		for _, uid := range []types.UID{"a", "b"} { // the client may see only one of them
			r.Holders = append(r.Holders, prospect.Holder{UID: uid, Requests: requests.Resources{"cpu": 1000}})
		}
		return causes.World{
			Rooms:   map[types.UID]prospect.Room{"p": r},
			Holders: map[types.UID]causes.Holder{"a": {Object: why.Reference{Kind: "Pod", Namespace: "n", Name: "a"}}},
		}
	}(), "no room for 2 CPUs (0 free)", "pods/a"}
	all["room"] = ofPod{newPod(), room(prospect.Room{}), "about to start", ""}
	all["not scheduled"] = ofPod{newPod(), causes.World{}, "not assigned to a node yet", ""}
	leaving := with(func(p *corev1.Pod) { p.Spec.NodeName, p.DeletionTimestamp = "here", ptr.To(metav1.NewTime(Now)) })
	all["pod deleted"] = ofPod{leaving, causes.World{}, "being deleted", ""}

	for _, c := range []struct{ taint, what, left, help string }{
		{corev1.TaintNodeDiskPressure, "the disk of /var/lib/jobd", "nodefs.available is 12Mi, below 38Mi", "df -h"},
		{corev1.TaintNodeMemoryPressure, "the memory of the machine", "memory.available is 12Mi, below 100Mi", "jobctl top pods"},
	} {
		full := func(p causes.Pressure) causes.World {
			w := room(prospect.Room{Unfit: []fit.Obstacle{{Kind: fit.Tainted, Taint: &corev1.Taint{Key: c.taint}}}})
			p.Path, p.What, p.Seen = "/var/lib/jobd", c.left, Now
			w.Pressed = map[string]causes.Pressure{c.taint: p}
			return w
		}
		all[c.what+" was full"] = ofPod{newPod(), full(causes.Pressure{Until: Now.Add(5 * time.Minute)}), c.what + " was full just now", ""}
		all[c.what+" is full"] = ofPod{newPod(), full(causes.Pressure{Short: true}), c.what + " is full", c.help}
	}
	return all
}

// starts are the cases of waiting in which a Job does not just wait. For an image that is being pulled again, and for whatever has
// failed only once, nobody needs to do anything yet.
var starts = map[string]Start{
	"no Secret": Cannot, "no ConfigMap": Cannot, "no claim": Cannot,
	"FailedMount again": Cannot, "FailedCreatePodSandBox again": Cannot, "CreateContainerError again": Cannot,
	"ImagePullBackOff": Cannot, duty.ErrImageNeverPull: Cannot, duty.InvalidImageName: Cannot, duty.CreateContainerConfig: Cannot, "runs as root": Cannot,

	"too large": CannotIfItLasts, "no device": CannotIfItLasts, "no shared device": CannotIfItLasts,
	"other node": CannotIfItLasts, "local volume": CannotIfItLasts,

	// Somebody holds it back on purpose, and is to let it go.
	"gate":     CannotAlone,
	"no group": CannotAlone, "foreign provisioner": CannotAlone,
}

func startOf(name string) Start {
	if strings.HasPrefix(name, "unfit ") {
		return CannotIfItLasts
	}
	return cmp.Or(starts[name], Waits)
}
