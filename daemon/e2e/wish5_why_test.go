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

// failing is a Job of which every pod runs a command of sh once.
func failing(name, command, spec string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
  backoffLimit: 0
%s
  template:
    spec:
      restartPolicy: Never
      containers:
      - {name: c, image: "busybox:1.36", command: [sh, -c, %q]}
`, name, spec, command)
}

// with is a Job whose pods have more in their specs than one container, which sleeps.
func with(name, container, pod, spec string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata: {name: %s}
spec:
%s
  template:
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
%s
      containers:
      - {name: c, image: "busybox:1.36", command: [sleep, "3600"]%s}
`, name, spec, pod, container)
}

var causesToFind = map[string]provoked{
	"the program fails": {
		failing("fails", "echo it begins; echo the disk is on fire >&2; exit 3", ""), "jobs/fails", "BackoffLimitExceeded",
		[]string{"exit code 3", "| the disk is on fire", "backoffLimit of 0", "jobctl logs pods/fails-"},
	},
	"a command that is not there": {failing("nosuch", "nosuchcommand", ""), "jobs/nosuch", "ExitCode", []string{"127", "did not find a command"}},
	"a file that is no program":   {failing("noexec", "echo > /f; /f", ""), "jobs/noexec", "ExitCode", []string{"126", "not executable"}},
	"a signal":                    {failing("signal", "exit 139", ""), "jobs/signal", "ExitCode", []string{"SIGSEGV"}},
	"out of memory": {
		strings.Replace(failing("oom", "x=a; while :; do x=$x$x; done", ""), "command:", "resources: {limits: {memory: 32Mi}}, command:", 1),
		"jobs/oom", "OOMKilled", []string{"32Mi", "out of memory", "137"},
	},
	"a program that is not in the image": {
		strings.Replace(failing("nostart", "true", ""), "command: [sh,", "command: [/no/such/program,", 1),
		"jobs/nostart", "StartError", []string{"could not be started"},
	},
	"an image that is not here": {
		strings.Replace(with("never", ", imagePullPolicy: Never", "", ""), "busybox:1.36", "nosuch:1", 1),
		"jobs/never", "ImageNeverPull", []string{"imagePullPolicy is Never", "jobctl image import"},
	},
	"an image that cannot be pulled": {
		strings.Replace(with("pull", "", "", ""), "busybox:1.36", "127.0.0.1:1/nosuch:1", 1),
		"jobs/pull", "ImagePull", []string{"127.0.0.1:1/nosuch:1", "is tried again"},
	},
	"a ConfigMap that is missing": {
		with("noconfig", `, envFrom: [{configMapRef: {name: settings}}]`, "", ""),
		"jobs/noconfig", "ConfigMapMissing", []string{"ConfigMap settings: does not exist", "environment of container c", "jobctl create configmap settings"},
	},
	"a Secret that is missing": {
		with("nosecret", `, volumeMounts: [{name: s, mountPath: /s}]`, `      volumes: [{name: s, secret: {secretName: password}}]`, ""),
		"jobs/nosecret", "SecretMissing", []string{"Secret password: does not exist", "volume s"},
	},
	"a volume that cannot be mounted": {
		with("novolume", `, volumeMounts: [{name: h, mountPath: /h}]`, `      volumes: [{name: h, hostPath: {path: /no/such/path, type: Directory}}]`, ""),
		"jobs/novolume", "VolumeFails", []string{"/no/such/path", "is tried again"},
	},
	"the wait after a failure": {
		strings.Replace(strings.Replace(failing("backoff", "exit 1", ""), "backoffLimit: 0", "backoffLimit: 4", 1), "{name: backoff}",
			`{name: backoff, annotations: {jobd.dev/backoff-base: 1h, jobd.dev/backoff-cap: 2h}}`, 1),
		"jobs/backoff", "BackOff", []string{"failure 1 since the last success is 1h0m0s", "up to 2h0m0s", "jobd.dev/backoff-base", "it survives 3 more"},
	},
	"the wait of an index": {
		strings.Replace(failing("index", "exit 1", "  completions: 1\n  completionMode: Indexed\n  backoffLimitPerIndex: 5"), "  backoffLimit: 0\n", "", 1),
		"jobs/index", "IndexBackOff", []string{"Index 0", "backoffLimitPerIndex allows 5"},
	},
	"a container that crashes again and again": {
		strings.Replace(strings.Replace(failing("crash", "exit 7", ""), "restartPolicy: Never", "restartPolicy: OnFailure", 1), "backoffLimit: 0", "backoffLimit: 100", 1),
		"jobs/crash", "CrashLoopBackOff", []string{"waits to be started again", "exit code 7", "up to 5m0s"},
	},
	"suspended": {
		strings.Replace(with("suspended", "", "", "  suspend: true"), "{name: suspended}", `{name: suspended, labels: {kueue.x-k8s.io/queue-name: q}}`, 1),
		"jobs/suspended", "Suspended", []string{"kubectl-client-side-apply has set its spec.suspend", "no Kueue", "jobctl resume jobs/suspended"},
	},
	"a deadline that comes":    {with("deadline", "", "", "  activeDeadlineSeconds: 3000"), "jobs/deadline", "Deadline", []string{"50m0s", "[until"}},
	"a deadline that has come": {with("late", "", "", "  activeDeadlineSeconds: 1"), "jobs/late", "DeadlineExceeded", []string{"activeDeadlineSeconds (1s)"}},
	"a rule of podFailurePolicy": {
		failing("policy", "exit 42", "  podFailurePolicy:\n    rules:\n    - {action: Ignore, onPodConditions: [{type: DisruptionTarget}]}\n    - {action: Count, onExitCodes: {operator: In, values: [1, 2]}}\n    - {action: FailJob, onExitCodes: {operator: In, values: [42]}}\n    - {action: Ignore, onExitCodes: {operator: NotIn, values: [0]}}"),
		"jobs/policy", "RuleMatched", []string{
			"Rule 0 (Ignore) does not match: the pod has no condition DisruptionTarget=True", "Rule 1 (Count) does not match: exit code 42 of container c is not one of [1 2]",
			"Rule 2 of podFailurePolicy matches it: FailJob", "Rule 3 (Ignore) was not looked at",
		},
	},
	"an index that has failed for good": {
		strings.Replace(failing("failindex", "[ $JOB_COMPLETION_INDEX != 1 ]", "  completions: 3\n  parallelism: 3\n  completionMode: Indexed\n  backoffLimitPerIndex: 0\n  maxFailedIndexes: 0"), "  backoffLimit: 0\n", "", 1),
		"jobs/failindex", "MaxFailedIndexesExceeded", []string{"Indexes that have failed: 1", "maxFailedIndexes of 0", "for index 1"},
	},
	"a rule of successPolicy": {
		with("success", "", "", "  completions: 3\n  completionMode: Indexed\n  parallelism: 0\n  successPolicy: {rules: [{succeededIndexes: \"0,2\", succeededCount: 1}]}"),
		"jobs/success", "SuccessPolicy", []string{"Rule 0 is not met: 0 of the indexes 0,2 have succeeded, and it needs 1"},
	},
	"no room": {
		with("waits", ", resources: {requests: {cpu: 1500m}}", "", ""), "jobs/waits", "WaitsForRoom",
		[]string{"it requests 1500m of cpu, and 200m of 2 is free", "pods/holder-", "holds 1800m of cpu", "has a deadline"},
	},
	"more than there is": {with("huge", ", resources: {requests: {cpu: 64}}", "", ""), "jobs/huge", "NeverFits", []string{"64 of cpu", "only 2 for all pods"}},
	"a gang that does not fit": {
		with("gang", ", resources: {requests: {cpu: 150m}}", "", "  completions: 3\n  parallelism: 3\n  completionMode: Indexed\n  scheduling: {schedulingPolicy: {gang: {}}}"),
		"jobs/gang", "WaitsForGang", []string{"3 pods have to start together, and there is room for 1"},
	},
	"another node": {with("selects", "", `      nodeSelector: {disk: ssd}`, ""), "jobs/selects", "NodeUnfit", []string{"disk=ssd, which the node does not have"}},
	"a node affinity": {
		with("affine", "", `      affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [ssd]}]}]}}}`, ""),
		"jobs/affine", "NodeUnfit", []string{"asks for disk in (ssd), which the node does not have", "jobctl label node", "disk=ssd"},
	},
	"company that is not there": {
		with("lonely", "", `      affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: db}}}]}}`, ""),
		"jobs/lonely", "KeptApart", []string{"a pod that matches app=db", "none is on this machine"},
	},
	"company that is not wanted": {
		with("shy", "", `      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {job-name: holder}}}]}}`, ""),
		"jobs/shy", "KeptApart", []string{"no pod that matches job-name=holder", "pods/holder-"},
	},
	"pods that cannot be spread": {
		with("spread", "", `      topologySpreadConstraints: [{topologyKey: rack, maxSkew: 1, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]`, ""),
		"jobs/spread", "KeptApart", []string{"the label rack, which the node does not have"},
	},
	"a node of another name": {with("named", "", `      nodeName: elsewhere`, ""), "jobs/named", "OtherNode", []string{"spec.nodeName is elsewhere"}},
	"a device that is not there": {
		with("gpu", ", resources: {limits: {nvidia.com/gpu: 1}}", "", ""), "jobs/gpu", "DeviceMissing", []string{"/etc/cdi", "nvidia-ctk cdi generate"},
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
---` + with("far", ", volumeMounts: [{name: v, mountPath: /v}]", `      volumes: [{name: v, persistentVolumeClaim: {claimName: far}}]`, ""),
		"jobs/far", "WaitsForClaim", []string{"PersistentVolume far", "kubernetes.io/hostname in (big-box)"},
	},
	"a claim for one pod": {`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: own}
spec: {accessModes: [ReadWriteOncePod], resources: {requests: {storage: 1Mi}}}
---` + with("first", ", volumeMounts: [{name: v, mountPath: /v}]", `      volumes: [{name: v, persistentVolumeClaim: {claimName: own}}]`, "  parallelism: 2\n  completions: 2"),
		"jobs/first", "WaitsForClaim", []string{"ReadWriteOncePod", "the pod first-"},
	},
	"a script with CRLF": {`
apiVersion: v1
kind: ConfigMap
metadata: {name: windows}
data: {x.sh: "#!/bin/sh\r\necho hi\r\n"}
---` + strings.Replace(strings.Replace(failing("crlf", "true", ""), "command: [sh,", "volumeMounts: [{name: s, mountPath: /s}], command: [/s/x.sh,", 1),
		"      containers:", "      volumes: [{name: s, configMap: {name: windows, defaultMode: 0755}}]\n      containers:", 1),
		"jobs/crlf", "NotExecutable", []string{"its program never ran", "/s/x.sh", "CRLF"},
	},
	"no pods are wanted": {with("idle", "", "", "  parallelism: 0"), "jobs/idle", "NoParallelism", []string{"spec.parallelism is 0"}},
	"a refused pod":      {with("refused", "", "      priorityClassName: nosuch", ""), "jobs/refused", "PodRefused", []string{"nosuch", "was refused"}},
	"managed by another": {with("elsewhere", "", "", "  managedBy: example.com/other"), "jobs/elsewhere", "ManagedElsewhere", []string{"example.com/other"}},
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

// Wish 5: one command leads from a Job that waits or has failed to the cause. Each cause is provoked for real.
func TestWish5WhyIsItNotRunningWhyDidItFail(t *testing.T) {
	d := start(t, "--allocatable", "cpu=2", "--network", "none")
	d.apply(with("holder", ", resources: {requests: {cpu: 1800m}}", "", "  activeDeadlineSeconds: 3000"))
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
	d.apply(with("cordoned", "", "", ""))
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
