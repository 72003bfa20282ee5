package core

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// There is one container unless a case has its own; what jobd does not support is for another test.
func TestPodSpecIsValidatedAsInACluster(t *testing.T) {
	for _, tc := range []struct{ name, spec, want string }{
		{"a minimal spec is fine", ``, ``},
		{"a container is needed", `containers: []`, `spec.containers: Required value`},
		{"a container needs a name and an image", `containers: [{}]`, `spec.containers[0].name: Required value
spec.containers[0].image: Required value`},
		{"a container's name is a DNS label", `containers: [{name: A, image: i}]`, `spec.containers[0].name: Invalid value: "A": ` + label},
		{
			"an image has no space around it", `containers: [{name: a, image: " i"}]`,
			`spec.containers[0].image: Invalid value: " i": must not have leading or trailing whitespace`,
		},
		{
			"names are not used twice", `{containers: [{name: a, image: i}], initContainers: [{name: a, image: i}]}`,
			`spec.initContainers[0].name: Duplicate value: "a"`,
		},
		{
			"pull policies are known", `containers: [{name: a, image: i, imagePullPolicy: Often}]`,
			`spec.containers[0].imagePullPolicy: Unsupported value: "Often": supported values: "Always", "IfNotPresent", "Never"`,
		},
		{
			"restart policies are known", `restartPolicy: Maybe`,
			`spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never"`,
		},
		{"rules for restarts need a policy to fall back on", `containers: [{name: a, image: i, restartPolicyRules: [{action: Restart, exitCodes: {operator: In, values: [42]}}]}]`,
			`spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are used`},
		{"rules for restarts name an action and exit codes", `initContainers: [{name: a, image: i, restartPolicy: Never, restartPolicyRules: [{action: Stop, exitCodes: {operator: Is}}, {action: RestartAllContainers}]}]`,
			`spec.initContainers[0].restartPolicyRules[0].action: Unsupported value: "Stop": supported values: "Restart", "RestartAllContainers"
spec.initContainers[0].restartPolicyRules[0].exitCodes.operator: Unsupported value: "Is": supported values: "In", "NotIn"
spec.initContainers[0].restartPolicyRules[1].exitCodes: Required value: must be specified`},
		{"an AppArmor profile is of a kind", `{securityContext: {appArmorProfile: {type: Some}}, containers: [{name: a, image: i, securityContext: {appArmorProfile: {type: Localhost}}}, {name: b, image: i, securityContext: {appArmorProfile: {type: Unconfined, localhostProfile: x}}}]}`,
			`spec.containers[0].securityContext.appArmorProfile.localhostProfile: Required value: must be set when AppArmor type is Localhost
spec.containers[1].securityContext.appArmorProfile.localhostProfile: Invalid value: "x": can only be set when AppArmor type is Localhost
spec.securityContext.appArmorProfile.type: Unsupported value: "Some": supported values: "Localhost", "RuntimeDefault", "Unconfined"`},
		{
			"message policies are known", `containers: [{name: a, image: i, terminationMessagePolicy: Fax}]`,
			`spec.containers[0].terminationMessagePolicy: Unsupported value: "Fax": supported values: "FallbackToLogsOnError", "File"`,
		},
		{"a deadline is positive", `activeDeadlineSeconds: 0`, `spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive`},
		{"a host name is a DNS label", `hostname: a.b`, `spec.hostname: Invalid value: "a.b": must not contain dots`},

		{"a variable has a name", `containers: [{name: a, image: i, env: [{value: x}]}]`, `spec.containers[0].env[0].name: Required value`},
		{"a variable's name may be odd but has no =", `containers: [{name: a, image: i, env: [{name: "1 b", value: x}, {name: "a=b"}]}]`,
			`spec.containers[0].env[1].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='`},
		{"a variable comes from somewhere", `containers: [{name: a, image: i, env: [{name: A, valueFrom: {}}]}]`,
			"spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, `resourceFieldRef`, " +
				"`configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"},
		{"but from one place only", `containers: [{name: a, image: i, env: [{name: A, value: x, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}]`,
			"spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not empty"},
		{"labels and annotations have keys", `containers: [{name: a, image: i, env: [{name: A, valueFrom: {fieldRef: {fieldPath: "metadata.labels['a/b']"}}}, {name: B, valueFrom: {fieldRef: {fieldPath: metadata.labels}}}]}]`,
			`spec.containers[0].env[1].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs"`},
		{"no other field has", `containers: [{name: a, image: i, env: [{name: A, valueFrom: {fieldRef: {fieldPath: "metadata.name['a']"}}}]}]`,
			`spec.containers[0].env[0].valueFrom.fieldRef: Invalid value: "metadata.name": does not support subscript`},
		{"a field has to exist", `containers: [{name: a, image: i, env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.nope}}}]}]`,
			`spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.nope": error converting fieldPath: field label not supported: spec.nope`},
		{"a resource has to exist", `containers: [{name: a, image: i, env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.gpu}}}]}]`,
			`spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: "limits.gpu": supported values: "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory"`},
		{"a divisor fits its resource", `containers: [{name: a, image: i, env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1Mi}}}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}]}]`,
			`spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource`},
		{"of huge pages too", `containers: [{name: a, image: i, env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.hugepages-2Mi, divisor: 3}}}]}]`,
			`spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.hugepages-2Mi": only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the hugepages resource`},
		{"what variables are read from has a name that such an object can have", `containers: [{name: a, image: i, envFrom: [{configMapRef: {name: A}}, {secretRef: {}}], env: [{name: A, valueFrom: {secretKeyRef: {name: A, key: k}}}, {name: B, valueFrom: {configMapKeyRef: {key: k}}}]}]`,
			`spec.containers[0].env[0].valueFrom.secretKeyRef.name: Invalid value: "A": ` + subdomain + `
spec.containers[0].env[1].valueFrom.configMapKeyRef.name: Invalid value: "": ` + subdomain + `
spec.containers[0].envFrom[0].configMapRef.name: Invalid value: "A": ` + subdomain + `
spec.containers[0].envFrom[1].secretRef.name: Required value`},
		{"huge pages are whole", `containers: [{name: a, image: i, resources: {limits: {cpu: 1, hugepages-2Mi: 4Mi, hugepages-1Gi: 3Mi, hugepages-x: 1}}}]`,
			`spec.containers[0].resources.limits[hugepages-1Gi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-1Gi
spec.containers[0].resources.limits[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of hugepages-x
spec.containers[0].resources.requests[hugepages-1Gi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-1Gi
spec.containers[0].resources.requests[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of hugepages-x`},
		{"an operating system has a name", `os: {}`, `spec.os.name: Required value`},
		{"a name of an AppArmor profile has no space around it", `securityContext: {appArmorProfile: {type: Localhost, localhostProfile: " a"}}`,
			`spec.securityContext.appArmorProfile.localhostProfile: Invalid value: " a": must not be padded with whitespace`},
		{"nor does a profile go without a type", `securityContext: {appArmorProfile: {localhostProfile: a}}`,
			`spec.securityContext.appArmorProfile.type: Required value: type is required when appArmorProfile is set`},

		{"ports have a number", `containers: [{name: a, image: i, ports: [{name: web}, {containerPort: 70000, name: web}]}]`, `spec.containers[0].ports[0].containerPort: Required value
spec.containers[0].ports[1].name: Duplicate value: "web"
spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive`},
		{"in the host's network they are the host's", `{hostNetwork: true, containers: [{name: a, image: i, ports: [{containerPort: 80, hostPort: 81}]}, {name: b, image: i, ports: [{containerPort: 81, hostPort: 81}]}]}`,
			"spec.containers[0].ports[0].containerPort: Invalid value: 80: must match `hostPort` when `hostNetwork` is " +
				"true\nspec.containers[1].ports[0].hostPort: Duplicate value: \"TCP//81\""},

		{"volumes have a name of their own", `volumes: [{emptyDir: {}}, {name: a}, {name: a}]`, `spec.volumes[0].name: Required value
spec.volumes[2].name: Duplicate value: "a"`},
		{
			"a volume is one thing", `volumes: [{name: a, emptyDir: {}, hostPath: {path: /x}}]`,
			`spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type`,
		},
		{"a path of the host is given and does not step back", `volumes: [{name: a, hostPath: {path: ""}}, {name: b, hostPath: {path: /a/../b}}, {name: c, hostPath: {path: /x, type: Pipe}}]`,
			`spec.volumes[0].hostPath.path: Required value
spec.volumes[1].hostPath.path: Invalid value: "/a/../b": must not contain '..'
spec.volumes[2].hostPath.type: Unsupported value: "Pipe": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"`},
		{
			"a volume's size is not negative", `volumes: [{name: a, emptyDir: {sizeLimit: -1}}]`,
			`spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity`,
		},
		{
			"a mode of a volume has no set-ID bits", `volumes: [{name: a, emptyDir: {mode: 0o2777}}]`,
			`spec.volumes[0].emptyDir.mode: Invalid value: 1535: must be a number between 0 and 01777 (octal), both inclusive`,
		},
		{"an image volume names an image", `volumes: [{name: a, image: {}}]`, `spec.volumes[0].image.reference: Required value`},
		{
			"an image volume has a known pull policy", `volumes: [{name: a, image: {reference: i, pullPolicy: Sometimes}}]`,
			`spec.volumes[0].image.pullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never"`,
		},
		{"an image volume takes no mount options", `volumes: [{name: a, image: {reference: i}}]
containers: [{name: c, image: i, volumeMounts: [{name: a, mountPath: /a, bindMountOptions: [noexec]}]}]`, `spec.containers[0].volumeMounts[0].bindMountOptions: Invalid value: ["noexec"]: bindMountOptions may not be used with image volumes`},
		{"mount options are known ones, each once", `volumes: [{name: a, emptyDir: {}}]
containers: [{name: c, image: i, volumeMounts: [{name: a, mountPath: /a, bindMountOptions: [nosuid, exec, nosuid]}]}]`, `spec.containers[0].volumeMounts[0].bindMountOptions[1]: Unsupported value: "exec": supported values: "nodev", "noexec", "nosuid"
spec.containers[0].volumeMounts[0].bindMountOptions[2]: Duplicate value: "nosuid"`},
		{"an NFS volume has a server and an absolute path", `volumes: [{name: a, nfs: {path: export}}]`, `spec.volumes[0].nfs.server: Required value
spec.volumes[0].nfs.path: Invalid value: "export": must be an absolute path`},
		{
			"what is mounted exists", `containers: [{name: a, image: i, volumeMounts: [{name: v, mountPath: /a}]}]`,
			`spec.containers[0].volumeMounts[0].name: Not found: "v"`,
		},
		{"where it is mounted is one place", `{volumes: [{name: v}], containers: [{name: a, image: i, volumeMounts: [{name: v}, {name: v, mountPath: /a}, {name: v, mountPath: /a}]}]}`,
			`spec.containers[0].volumeMounts[0].mountPath: Required value
spec.containers[0].volumeMounts[2].mountPath: Invalid value: "/a": must be unique`},
		{"a sub path stays inside", `{volumes: [{name: v}], containers: [{name: a, image: i, volumeMounts: [{name: v, mountPath: /a, subPath: /x}, {name: v, mountPath: /b, subPath: a/../../b}]}]}`,
			`spec.containers[0].volumeMounts[0].subPath: Invalid value: "/x": must be a relative path
spec.containers[0].volumeMounts[1].subPath: Invalid value: "a/../../b": must not contain '..'`},

		{"a request is within its limit", `containers: [{name: a, image: i, resources: {limits: {cpu: 100m}, requests: {cpu: 200m, memory: -1}}}]`,
			`spec.containers[0].resources.requests: Invalid value: "200m": must be less than or equal to cpu limit of 100m
spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0`},
		{"resources are known", `containers: [{name: a, image: i, resources: {limits: {gpu: 1}}}]`,
			`spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified
spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers
spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified
spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers`},
		{"a whole pod has what its containers ask for", `{resources: {limits: {memory: 1Gi, hugepages-2Mi: 2Mi}, requests: {cpu: 1}}, containers: [{name: a, image: i, resources: {limits: {memory: 2Gi, hugepages-2Mi: 4Mi}}}, {name: b, image: i, resources: {requests: {cpu: 1500m}}}]}`,
			`spec.resources.requests: Invalid value: "2Gi": must be less than or equal to memory limit of 1Gi
spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 1500m
spec.resources.requests[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to aggregate container requests of 4Mi
spec.resources.limits[hugepages-2Mi]: Invalid value: "2Mi": must be greater than or equal to aggregate container limits of 4Mi
spec.resources.containers[0][hugepages-2Mi].limits: Invalid value: "4Mi": must be less than or equal to pod limits of 2Mi
spec.resources.containers[0][memory].limits: Invalid value: "2Gi": must be less than or equal to pod limits of 1Gi`},
		{"it is not limited in disk or devices", `{resources: {limits: {ephemeral-storage: 1Gi, a.b/gpu: 1}}, containers: [{name: a, image: i}]}`,
			`spec.resources.limits[a.b/gpu]: Unsupported value: "a.b/gpu": supported values: "cpu", "hugepages-", "memory"
spec.resources.limits[ephemeral-storage]: Unsupported value: "ephemeral-storage": supported values: "cpu", "hugepages-", "memory"
spec.resources.requests[a.b/gpu]: Unsupported value: "a.b/gpu": supported values: "cpu", "hugepages-", "memory"
spec.resources.requests[ephemeral-storage]: Unsupported value: "ephemeral-storage": supported values: "cpu", "hugepages-", "memory"`},
		{"devices are counted whole and not shared out", `containers: [{name: a, image: i, resources: {limits: {a.b/gpu: 1500m}, requests: {a.b/gpu: 1, a.b/tpu: 1}}}]`,
			`spec.containers[0].resources.limits[a.b/gpu]: Invalid value: "1500m": must be an integer
spec.containers[0].resources.requests: Invalid value: "1": must be equal to a.b/gpu limit of 1500m
spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources`},

		{"a probe does something", `containers: [{name: a, image: i, livenessProbe: {successThreshold: 2, httpGet: {port: 0}, exec: {}}}]`,
			`spec.containers[0].livenessProbe.exec.command: Required value
spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type
spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1`},
		{"a probe asks a port", `containers: [{name: a, image: i, readinessProbe: {httpGet: {port: web!}, periodSeconds: -1}, startupProbe: {}}]`,
			`spec.containers[0].readinessProbe.httpGet.port: Invalid value: "web!": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)
spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0
spec.containers[0].startupProbe: Required value: must specify a handler type`},
		{"an init container does not stay, so it is not probed", `initContainers: [{name: b, image: i, livenessProbe: {exec: {command: [a]}}, lifecycle: {}}]`,
			`spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without restartPolicy=Always
spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always`},
		{"a hook sleeps no longer than the grace period", `{terminationGracePeriodSeconds: 5, containers: [{name: a, image: i, lifecycle: {preStop: {sleep: {seconds: 6}}}}]}`,
			`spec.containers[0].lifecycle.preStop.sleep: Invalid value: 6: must be non-negative and less than terminationGracePeriodSeconds (5)`},

		{"users and groups are numbers that exist", `{securityContext: {runAsUser: -1, supplementalGroups: [-1], fsGroup: -2}, containers: [{name: a, image: i, securityContext: {runAsGroup: -1}}]}`,
			`spec.containers[0].securityContext.runAsGroup: Invalid value: -1: must be between 0 and 2147483647, inclusive
spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive
spec.securityContext.fsGroup: Invalid value: -2: must be between 0 and 2147483647, inclusive
spec.securityContext.supplementalGroups[0]: Invalid value: -1: must be between 0 and 2147483647, inclusive`},
		{
			"a seccomp profile names its file", `securityContext: {seccompProfile: {type: Localhost}}`,
			`spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost`,
		},
		{"sysctls have names", `securityContext: {sysctls: [{name: "", value: a}, {name: a.b}, {name: a.b}]}`, `spec.securityContext.sysctls[0].name: Required value
spec.securityContext.sysctls[2].name: Duplicate value: "a.b"`},
		{
			"namespaces of processes are either the host's or shared", `{hostPID: true, shareProcessNamespace: true}`,
			`spec.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled`,
		},
		{"a pod with users of its own shares no other namespace with the host", `{hostUsers: false, hostNetwork: true, hostPID: true, hostIPC: true}`,
			"spec.hostNetwork: Forbidden: when `hostUsers` is false\nspec.HostPID: Forbidden: when `hostUsers` is " +
				"false\nspec.HostIPC: Forbidden: when `hostUsers` is false"},
		{"with the host's users it may", `{hostUsers: true, hostNetwork: true, hostPID: true, hostIPC: true}`, ""},
		{
			"all of /proc is for a pod with users of its own",
			`{hostUsers: false, containers: [{name: a, image: i, securityContext: {procMount: Unmasked}}]}`, "",
		},
		{"and for no other", `{containers: [{name: a, image: i, securityContext: {procMount: Unmasked}}]}`,
			"spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`"},

		{"DNS of one's own names a server", `dnsPolicy: None`, "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"},
		{"servers have addresses", `dnsConfig: {nameservers: [a], searches: [a..b]}`, `spec.dnsConfig.nameservers[0]: Invalid value: "a": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
spec.dnsConfig.searches[0]: Invalid value: "a..b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')`},
		{
			"aliases have addresses", `hostAliases: [{ip: x, hostnames: [a]}]`,
			`spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
		},
		{"gates are not written twice", `schedulingGates: [{name: a/b}, {name: a/b}]`, `spec.schedulingGates[1]: Duplicate value: "a/b"`},
		{"a scheduling group has a name", `schedulingGroup: {}`, "spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`"},
		{"tolerations make sense", `tolerations: [{key: a, operator: Perhaps}, {operator: Equal}, {key: a, effect: NoSchedule, tolerationSeconds: 1}]`,
			`spec.tolerations[0].operator: Unsupported value: "Perhaps": supported values: "Equal", "Exists"
spec.tolerations[1].operator: Invalid value: "Equal": operator must be Exists when ` + "`key`" + ` is empty, which means "match all values and all keys"
spec.tolerations[2].effect: Invalid value: "NoSchedule": effect must be 'NoExecute' when ` + "`tolerationSeconds`" + ` is set`},
		{"a toleration of whatever value has none, and none compares numbers", `tolerations: [{key: a, operator: Exists, value: v}, {key: a, operator: Gt, value: "1"}]`,
			`spec.tolerations[0].operator: Invalid value: "v": value must be empty when ` + "`operator`" + ` is 'Exists'
spec.tolerations[1].operator: Unsupported value: "Gt": supported values: "Equal", "Exists", "Lt", "Gt"`},
		{"affinity makes sense", `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}, preferredDuringSchedulingIgnoredDuringExecution: [{weight: 0, preference: {matchExpressions: [{key: a, operator: In}]}}]}, podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{}]}}`,
			`spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term
spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100
spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values: Required value: must be specified when ` + "`operator`" + ` is 'In' or 'NotIn'
spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty
spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": name part must be non-empty
spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": ` +
				`name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric ` +
				`character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`},
		{"a namespace of affinity is a label, a node is named once", `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
			[{topologyKey: zone, namespaces: ["-"]}]}, nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
			{nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: Exists}, {key: metadata.name, operator: In}]}]}}}`,
			`spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].operator: Invalid value: "Exists": not a valid selector operator
spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[1].values: Required value: must be only one value when ` + "`operator`" + ` is 'In' or 'NotIn' for node field selector
spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].namespace: Invalid value: "-": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`},
		{"resources of quotas are known, and of no container", `containers: [{name: c, image: i, resources: {limits: {pods: 1}}}]`,
			`spec.containers[0].resources.limits[pods]: Invalid value: "pods": must be a standard resource for containers
spec.containers[0].resources.requests[pods]: Invalid value: "pods": must be a standard resource for containers`},
		{"what gives an environment is one thing", `containers: [{name: c, image: i, envFrom: [{}, {configMapRef: {name: a}, secretRef: {name: b}}]}]`,
			`spec.containers[0].envFrom: Invalid value: "": must specify one of: ` + "`configMapRef` or `secretRef`" + `
spec.containers[0].envFrom: Invalid value: "": may not have more than one field specified at a time`},
		{"pods are spread by something", `topologySpreadConstraints: [{whenUnsatisfiable: Never}]`,
			`spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero
spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty
spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Never": supported values: "DoNotSchedule", "ScheduleAnyway"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &pod.Spec); err != nil {
				t.Fatal(err)
			}
			if pod.Spec.Containers == nil {
				pod.Spec.Containers = []corev1.Container{{Name: "c", Image: "i"}}
			}
			SetPodDefaults(pod)
			supported := map[string]bool{}
			for _, e := range unsupported(&pod.Spec, field.NewPath("spec")) {
				supported[e.Error()] = true
			}
			var got []string
			for _, e := range validatePodSpec(&pod.Spec, field.NewPath("spec")) {
				if !supported[e.Error()] {
					got = append(got, e.Error())
				}
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

const subdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`

const label = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`

func TestVolumesThatAreNotBuiltAreCheckedToo(t *testing.T) {
	for _, tc := range []struct{ name, volume, want string }{
		{"a ConfigMap has a name", `configMap: {items: [{key: "", path: ../a}]}`, `v.configMap.name: Required value
v.configMap.items[0].key: Required value
v.configMap.items[0].path: Invalid value: "../a": must not contain '..'`},
		{"a Secret has one too, and modes are permissions", `secret: {defaultMode: 512}`, `v.secret.secretName: Required value
v.secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive`},
		{"names that start with two dots are the volume's own", `secret: {secretName: a, items: [{key: k, path: ..data}, {key: k, path: /a}, {key: k}]}`, `v.secret.items[0].path: Invalid value: "..data": must not start with '..'
v.secret.items[1].path: Invalid value: "/a": must be a relative path
v.secret.items[2].path: Required value`},
		{"a file of the downward API has a source", `downwardAPI: {items: [{path: a}, {path: b, fieldRef: {apiVersion: v1, fieldPath: status.podIP}}, {path: c, resourceFieldRef: {resource: limits.cpu}}]}`,
			`v.downwardAPI: Required value: one of fieldRef and resourceFieldRef is required
v.downwardAPI.fieldRef.fieldPath: Unsupported value: "status.podIP": supported values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"
v.downwardAPI.resourceFieldRef.containerName: Required value`},
		{"a projected source is one thing", `projected: {sources: [{}, {secret: {name: a}, configMap: {name: b}}, {serviceAccountToken: {path: t, expirationSeconds: 60}}]}`,
			`v.projected.sources[0]: Required value: must specify a source
v.projected.sources[1]: Forbidden: may not specify more than 1 volume type per source
v.projected.sources[2].serviceAccountToken.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes`},
		{"a token has a life that can be reckoned with", `projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 9223372036854775807}}, ` +
			`{serviceAccountToken: {path: u, expirationSeconds: 4294967297}}, {serviceAccountToken: {path: v, expirationSeconds: 4294967296}}]}`,
			`v.projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 9223372036854775807: may not specify a duration larger than 2^32 seconds
v.projected.sources[1].serviceAccountToken.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds`},
		{"files of a projected volume have paths of their own", `projected: {sources: [{secret: {name: a, items: [{key: k, path: f}]}}, {configMap: {name: b, items: [{key: k, path: f}, {key: k, path: g}]}}, ` +
			`{downwardAPI: {items: [{path: g, fieldRef: {apiVersion: v1, fieldPath: metadata.name}}]}}]}`,
			`v.projected: Invalid value: "b": conflicting duplicate paths
v.projected: Invalid value: "g": conflicting duplicate paths`},
		{"a claim has a name", `persistentVolumeClaim: {}`, `v.persistentVolumeClaim.claimName: Required value`},
		{"a volume is something", ``, `v: Required value: must specify a volume type`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := podOf(t, "spec: {volumes: [{name: v, "+tc.volume+"}]}")
			var got []string
			for _, e := range validateVolumeSource(&pod.Spec.Volumes[0].VolumeSource, field.NewPath("v")) {
				got = append(got, e.Error())
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, "\n")); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestPodAndTemplateMetadata(t *testing.T) {
	pod := podOf(t, `{metadata: {name: A, namespace: default}, spec: {containers: [{name: c, image: i}]}}`)
	SetPodDefaults(pod)
	if errs := ValidatePod(pod); len(errs) != 1 || errs[0].Field != "metadata.name" {
		t.Errorf("a pod's name: %v", errs)
	}
	template := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": strings.Repeat("x", 64)}}, Spec: pod.Spec}
	errs := ValidatePodTemplateSpec(template, field.NewPath("spec", "template"))
	if len(errs) != 1 || errs[0].Field != "spec.template.labels" || errs[0].Detail != "must be no more than 63 bytes" {
		t.Errorf("a template's labels: %v", errs)
	}
	if errs := ValidatePod(&corev1.Pod{Spec: corev1.PodSpec{}}); len(errs) == 0 {
		t.Error("nothing is wrong with nothing")
	}
}
