package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/why"
)

// provoked is a manifest that leads to a cause, and the command that is to find it.
type provoked struct {
	manifest string
	of       string // jobs/NAME, pods/NAME, cronjobs/NAME
	cause    string // its type
	words    []string
}

var causesToFind = map[string]provoked{
	"the program fails": {
		failing("fails", "echo it begins; echo the disk is on fire >&2; exit 3").String(), "jobs/fails", "BackoffLimitExceeded",
		[]string{"exit code 3", "| the disk is on fire", "backoffLimit of 0", "jobctl logs pods/fails-"},
	},
	"a command that is not there": {failing("nosuch", "nosuchcommand").String(), "jobs/nosuch", "ExitCode", []string{"127", "did not find a command"}},
	"a file that is no program":   {failing("noexec", "echo > /f; /f").String(), "jobs/noexec", "ExitCode", []string{"126", "not executable"}},
	"a signal":                    {failing("signal", "exit 139").String(), "jobs/signal", "ExitCode", []string{"SIGSEGV"}},
	"out of memory": {
		jobManifest{
			name: "oom", spec: "backoffLimit: 0", container: "resources: {limits: {memory: 32Mi}}",
			program: []string{"sh", "-c", "x=a; while :; do x=$x$x; done"},
		}.String(),
		"jobs/oom", "OOMKilled", []string{"32Mi", "out of memory", "137"},
	},
	"a program that is not in the image": {
		jobManifest{name: "nostart", spec: "backoffLimit: 0", program: []string{"/no/such/program"}}.String(),
		"jobs/nostart", "StartError", []string{"could not be started"},
	},
	"an image that is not here": {
		jobManifest{name: "never", container: `image: "nosuch:1", imagePullPolicy: Never`}.String(),
		"jobs/never", "ImageNeverPull", []string{"imagePullPolicy is Never", "jobctl image import"},
	},
	"an image that cannot be pulled": {
		jobManifest{name: "pull", container: `image: "127.0.0.1:1/nosuch:1"`}.String(),
		"jobs/pull", "ImagePull", []string{"127.0.0.1:1/nosuch:1", "is tried again"},
	},
	"a ConfigMap that is missing": {
		jobManifest{name: "noconfig", container: "envFrom: [{configMapRef: {name: settings}}]"}.String(),
		"jobs/noconfig", "ConfigMapMissing", []string{"ConfigMap settings: does not exist", "environment of container c", "jobctl create configmap settings"},
	},
	"a Secret that is missing": {
		jobManifest{
			name: "nosecret", pod: "volumes: [{name: s, secret: {secretName: password}}]",
			container: "volumeMounts: [{name: s, mountPath: /s}]",
		}.String(),
		"jobs/nosecret", "SecretMissing", []string{"Secret password: does not exist", "volume s"},
	},
	"a volume that cannot be mounted": {
		jobManifest{
			name: "novolume", pod: "volumes: [{name: h, hostPath: {path: /no/such/path, type: Directory}}]",
			container: "volumeMounts: [{name: h, mountPath: /h}]",
		}.String(),
		"jobs/novolume", "VolumeFails", []string{"/no/such/path", "is tried again"},
	},
	"the wait after a failure": {
		jobManifest{
			name: "backoff", metadata: "annotations: {jobd.dev/backoff-base: 1h, jobd.dev/backoff-cap: 2h}",
			spec: "backoffLimit: 4", program: []string{"sh", "-c", "exit 1"},
		}.String(),
		"jobs/backoff", "BackOff", []string{"failure 1 since the last success is 1h0m0s", "up to 2h0m0s", "jobd.dev/backoff-base", "it survives 3 more"},
	},
	"the wait of an index": {
		jobManifest{
			name: "index", spec: "completions: 1, completionMode: Indexed, backoffLimitPerIndex: 5", program: []string{"sh", "-c", "exit 1"},
		}.String(),
		"jobs/index", "IndexBackOff", []string{"Index 0", "backoffLimitPerIndex allows 5"},
	},
	"a container that crashes again and again": {
		jobManifest{
			name: "crash", spec: "backoffLimit: 100", pod: "restartPolicy: OnFailure", program: []string{"sh", "-c", "exit 7"},
		}.String(),
		"jobs/crash", "CrashLoopBackOff", []string{"waits to be started again", "exit code 7", "up to 5m0s"},
	},
	"suspended": {
		jobManifest{name: "suspended", metadata: "labels: {kueue.x-k8s.io/queue-name: q}", spec: "suspend: true"}.String(),
		"jobs/suspended", "Suspended", []string{"kubectl-client-side-apply has set its spec.suspend", "no Kueue", "jobctl resume jobs/suspended"},
	},
	"a deadline that comes": {jobManifest{
		name: "deadline", spec: "activeDeadlineSeconds: 3000",
	}.String(), "jobs/deadline", "Deadline", []string{"50m0s", "[until"}},
	"a deadline that has come": {jobManifest{
		name: "late", spec: "activeDeadlineSeconds: 1",
	}.String(), "jobs/late", "DeadlineExceeded", []string{"activeDeadlineSeconds (1s)"}},
	"a rule of podFailurePolicy": {
		jobManifest{name: "policy", spec: `
backoffLimit: 0
podFailurePolicy:
  rules:
  - {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}
  - {action: Count, onExitCodes: {operator: In, values: [1, 2]}}
  - {action: FailJob, onExitCodes: {operator: In, values: [42]}}
  - {action: Ignore, onExitCodes: {operator: NotIn, values: [0]}}`, program: []string{"sh", "-c", "exit 42"}}.String(),
		"jobs/policy", "RuleMatched", []string{
			"Rule 0 (Ignore) does not match: the pod has no condition DisruptionTarget=True", "Rule 1 (Count) does not match: exit code 42 of container c is not one of [1 2]",
			"Rule 2 of podFailurePolicy matches it: FailJob", "Rule 3 (Ignore) was not looked at",
		},
	},
	"an index that has failed for good": {
		jobManifest{
			name: "failindex", program: []string{"sh", "-c", "[ $JOB_COMPLETION_INDEX != 1 ]"},
			spec: "completions: 3, parallelism: 3, completionMode: Indexed, backoffLimitPerIndex: 0, maxFailedIndexes: 0",
		}.String(),
		"jobs/failindex", "MaxFailedIndexesExceeded", []string{"Indexes that have failed: 1", "maxFailedIndexes of 0", "for index 1"},
	},
	"a rule of successPolicy": {
		jobManifest{
			name: "success",
			spec: `completions: 3, completionMode: Indexed, parallelism: 0, successPolicy: {rules: [{succeededIndexes: "0,2", succeededCount: 1}]}`,
		}.String(),
		"jobs/success", "SuccessPolicy", []string{"Rule 0 is not met: 0 of the indexes 0,2 have succeeded, and it needs 1"},
	},
	"no room": {
		jobManifest{name: "waits", container: "resources: {requests: {cpu: 1500m}}"}.String(), "jobs/waits", "WaitsForRoom",
		[]string{"it requests 1500m of cpu, and 200m of 2 is free", "pods/holder-", "holds 1800m of cpu", "has a deadline"},
	},
	"more than there is": {jobManifest{
		name: "huge", container: "resources: {requests: {cpu: 64}}",
	}.String(), "jobs/huge", "NeverFits", []string{"64 of cpu", "only 2 for all pods"}},
	"a gang that does not fit": {
		jobManifest{
			name: "gang", spec: "completions: 3, parallelism: 3, completionMode: Indexed, scheduling: {schedulingPolicy: {gang: {}}}",
			container: "resources: {requests: {cpu: 150m}}",
		}.String(),
		"jobs/gang", "WaitsForGang", []string{"3 pods have to start together, and there is room for 1"},
	},
	"another node": {jobManifest{
		name: "selects", pod: "nodeSelector: {disk: ssd}",
	}.String(), "jobs/selects", "NodeUnfit", []string{"disk=ssd, which the node does not have"}},
	"a node affinity": {
		jobManifest{
			name: "affine",
			pod: "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: " +
				"[{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]}}}",
		}.String(),
		"jobs/affine", "NodeUnfit", []string{"asks for disk in (ssd), which the node does not have", "jobctl label node", "disk=ssd"},
	},
	"company that is not there": {
		jobManifest{
			name: "lonely",
			pod: "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: " +
				"kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}",
		}.String(),
		"jobs/lonely", "KeptApart", []string{"a pod that matches app=db", "none is on this machine"},
	},
	"company that is not wanted": {
		jobManifest{
			name: "shy",
			pod: "affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: " +
				"kubernetes.io/hostname, labelSelector: {matchLabels: {job-name: holder}}}]}}",
		}.String(),
		"jobs/shy", "KeptApart", []string{"no pod that matches job-name=holder", "pods/holder-"},
	},
	"pods that cannot be spread": {
		jobManifest{
			name: "spread",
			pod:  "topologySpreadConstraints: [{topologyKey: rack, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]",
		}.String(),
		"jobs/spread", "KeptApart", []string{"the label rack, which the node does not have"},
	},
	"a node of another name": {jobManifest{
		name: "named", pod: "nodeName: elsewhere",
	}.String(), "jobs/named", "OtherNode", []string{"spec.nodeName is elsewhere"}},
	"a device that is not there": {
		jobManifest{
			name: "gpu", container: "resources: {limits: {nvidia.com/gpu: 1}}",
		}.String(), "jobs/gpu", "DeviceMissing", []string{"/etc/cdi", "nvidia-ctk cdi generate"},
	},
	"a volume of another machine": {`
apiVersion: v1
kind: PersistentVolume
metadata: {name: far}
spec:
  storageClassName: ""
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  local: {path: /data}
  claimRef: {namespace: default, name: far}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [big-box]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: far}
spec: {storageClassName: "", volumeName: far, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---` + jobManifest{
		name: "far", pod: "volumes: [{name: v, persistentVolumeClaim: {claimName: far}}]", container: "volumeMounts: [{name: v, mountPath: /v}]",
	}.String(),
		"jobs/far", "WaitsForClaim", []string{"PersistentVolume far", "kubernetes.io/hostname in (big-box)"},
	},
	"a claim for one pod": {`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: own}
spec: {accessModes: [ReadWriteOncePod], resources: {requests: {storage: 1Mi}}}
---` + jobManifest{
		name: "first", spec: "parallelism: 2, completions: 2", pod: "volumes: [{name: v, persistentVolumeClaim: {claimName: own}}]",
		container: "volumeMounts: [{name: v, mountPath: /v}]",
	}.String(),
		"jobs/first", "WaitsForClaim", []string{"ReadWriteOncePod", "the pod first-"},
	},
	"a script with CRLF": {`
apiVersion: v1
kind: ConfigMap
metadata: {name: windows}
data: {x.sh: "#!/bin/sh\r\necho hi\r\n"}
---` + jobManifest{
		name: "crlf", spec: "backoffLimit: 0", pod: "volumes: [{name: s, configMap: {name: windows, defaultMode: 0755}}]",
		container: "volumeMounts: [{name: s, mountPath: /s}]", program: []string{"/s/x.sh"},
	}.String(),
		"jobs/crlf", "NotExecutable", []string{"its program never ran", "/s/x.sh", "CRLF"},
	},
	"no pods are wanted": {jobManifest{
		name: "idle", spec: "parallelism: 0",
	}.String(), "jobs/idle", "NoParallelism", []string{"spec.parallelism is 0"}},
	"a refused pod": {jobManifest{
		name: "refused", pod: "priorityClassName: nosuch",
	}.String(), "jobs/refused", "PodRefused", []string{"nosuch", "was refused"}},
	"managed by another": {jobManifest{
		name: "elsewhere", spec: "managedBy: example.com/other",
	}.String(), "jobs/elsewhere", "ManagedElsewhere", []string{"example.com/other"}},
	"a gate": {`
apiVersion: v1
kind: Pod
metadata: {name: gated}
spec:
  schedulingGates: [{name: example.com/gate}]
  containers: [{name: c, image: "busybox:1.36"}]
`, "pods/gated", "SchedulingGated", []string{"example.com/gate"}},
	"a pod's own deadline": {`
apiVersion: v1
kind: Pod
metadata: {name: brief}
spec:
  restartPolicy: Never
  activeDeadlineSeconds: 1
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: "busybox:1.36", command: [sleep, "3600"]}]
`, "pods/brief", "DeadlineExceeded", []string{"activeDeadlineSeconds (1s)"}},
	"a CronJob that must not overlap": {`
apiVersion: batch/v1
kind: CronJob
metadata: {name: forbid}
spec:
  schedule: "@every 1s"
  concurrencyPolicy: Forbid
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 0, containers: [{name: c, image: "busybox:1.36", command: [sleep, "3600"]}]}}}}
`, "cronjobs/forbid", "ConcurrencyForbidden", []string{"still runs and concurrencyPolicy is Forbid", "jobctl why jobs/forbid-"}},
	"a CronJob whose last Job has failed": {`
apiVersion: batch/v1
kind: CronJob
metadata: {name: broken}
spec:
  schedule: "@every 1s"
  jobTemplate: {spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36", command: [sh, -c, "echo no luck; exit 9"]}]}}}}
`, "cronjobs/broken", "LastJobFailed", []string{"exit code 9", "| no luck", `schedule is "@every 1s"`}},
	"a CronJob that is suspended": {`
apiVersion: batch/v1
kind: CronJob
metadata: {name: paused}
spec:
  schedule: "@hourly"
  suspend: true
  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: "busybox:1.36"}]}}}}
`, "cronjobs/paused", "Suspended", []string{"starts no Jobs"}},
}

// One command leads from a Job that waits or has failed to the cause. Each cause is provoked for real.
func TestWhyIsItNotRunningWhyDidItFail(t *testing.T) {
	t.Parallel()
	d := start(t, "--allocatable", "cpu=2", "--network", "none")
	d.apply(jobManifest{name: "holder", spec: "activeDeadlineSeconds: 3000", container: "resources: {requests: {cpu: 1800m}}"}.String())
	d.running("holder", 1)
	var all strings.Builder
	for _, c := range causesToFind {
		all.WriteString("---" + c.manifest)
	}
	d.apply(all.String())
	for name, c := range causesToFind {
		d.eventually(name, func() error {
			out, err := d.try("jobctl", nil, "why", c.of, "-o", "json")
			said := &why.Explanation{}
			if err == nil {
				err = json.Unmarshal([]byte(out), said)
			}
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			if said.Source != why.FromRecords || why.Find(said.Causes, c.cause) == nil ||
				said.Object.Kind != "CronJob" && said.State == batch.StateWaiting && said.Reason == "" {
				return errors.New(out)
			}
			text, err := d.try("jobctl", nil, "why", c.of)
			flat := strings.Join(strings.Fields(text), " ")
			for _, words := range c.words {
				if !strings.Contains(flat, words) {
					return fmt.Errorf("%q is not in: %w\n%s", words, err, text)
				}
			}
			return nil
		})
		t.Logf("%s:\n%s", name, d.jobctl("why", c.of))
	}
	if out, _ := d.try("jobctl", nil, "logs", "jobs/named"); !strings.Contains(out, "for the node elsewhere") {
		t.Errorf("the log of a Job whose pods are for another node: %q", out)
	}
	if out, err := d.try("jobctl", nil, "why", "jobs/nosuchjob"); err == nil || !strings.Contains(out, `"nosuchjob" not found`) {
		t.Errorf("a Job that is not there: %v, %s", err, out)
	}
	if out, err := d.try("jobctl", nil, "why", "configmaps/x"); err == nil || !strings.Contains(out, "jobs or pods or cronjobs") {
		t.Errorf("a kind that is not explained: %v, %s", err, out)
	}

	// Cordoned, everything that waits says so.
	d.jobctl("cordon", "--selector", "kubernetes.io/hostname")
	d.apply(jobManifest{name: "cordoned"}.String())
	d.eventually("a pod waits for the node", func() error {
		if out := d.jobctl("why", "cordoned"); !strings.Contains(out, "the node is cordoned") || !strings.Contains(out, "$ jobctl uncordon") {
			return errors.New(out)
		}
		return nil
	})
	for _, kind := range []string{"cronjobs", "jobs", "pods"} {
		d.jobctl("delete", kind, "--all", "--grace-period=0", "--force", "--wait=false")
	}
}
