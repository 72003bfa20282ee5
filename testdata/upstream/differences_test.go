package upstream

import "regexp"

// difference is something that jobd does in another way than a cluster. All but why are regular expressions.
type difference struct {
	kinds   string
	verbs   string
	side    string // who alone says it: "jobd", "cluster", or "both" where fields have other values
	field   string
	message string
	refused string // who refuses the object: "both" where only the words differ, see finding
	why     string

	pattern *regexp.Regexp
	seen    int
}

func (d *difference) explains(f finding) bool {
	if d.pattern == nil {
		any := func(s string) string {
			if s == "" {
				return "[^\x00]*"
			}
			return "(?:" + s + ")"
		}
		const and = "\x00"
		d.pattern = regexp.MustCompile(
			"(?s)^" + any(d.kinds) + and + any(d.verbs) + and + any(d.side) + and + any(d.field) + and + any(d.message) + and + any(d.refused) + "$",
		)
	}
	const and = "\x00"
	return d.pattern.MatchString(f.Kind + and + f.Verb + and + f.Side + and + f.Field + and + f.Message + and + f.Refused)
}

const (
	withPods = `Pod|Job|CronJob`
	podSpec  = `spec(?:\.jobTemplate\.spec)?(?:\.template\.spec)?`
)

// What jobd does on purpose, or in other words.
var differences = []*difference{
	{
		kinds: withPods, side: `jobd`, field: podSpec + `\..*(\.(user|defaultUser)|\.bindMountOptions)`, message: `Invalid value: .*`,
		why: "a cluster drops these while their features are switched off; here they work",
	},
	{
		kinds: withPods, side: `jobd`, refused: `both`, field: podSpec + `\..*\.fileKeyRef\.key`, message: `Too long: .*`,
		why: "names of variables have a bound",
	},
	{
		kinds: withPods, side: `jobd`, field: podSpec + `\..*\.(image|reference)`, message: `(Too long: .*|.*: must consist of printable characters)`,
		why: "no container runtime takes such a name of an image",
	},
	{
		kinds: withPods, side: `jobd|cluster`, refused: `both`, field: podSpec + `\.(preemptionPolicy|resources\.claims)`,
		why: "of a value that is refused one message is enough",
	},
	{
		kinds: `LimitRange`, side: `jobd|cluster`, refused: `both`, field: `spec\.limits\[\d+\]\..*`, message: `Invalid value: .*`,
		why: "of a limit that is refused one message is enough",
	},
	{
		kinds: `ResourceQuota`, verbs: `update status`,
		why: "what is used is counted by the store alone; what a client writes there changes nothing",
	},
	{
		kinds: `ResourceQuota|PodDisruptionBudget|RoleBinding|ClusterRoleBinding`, side: `jobd|cluster`, refused: `both`,
		field: `spec|roleRef|spec\.scopeSelector\.matchExpressions`, message: `Invalid value: .*`,
		why: "what is refused is printed from Go types that only a cluster has",
	},
	{
		kinds: `ResourceQuota`, side: `cluster`, refused: `both`, field: `spec\.hard\[.*\]`,
		message: `Invalid value: .*: must be a standard resource type or fully qualified`,
		why:     "of a name that is refused one message is enough",
	},
	{
		kinds: `PodDisruptionBudget`, side: `jobd`, field: `metadata\..*`,
		why: "a cluster does not check the metadata of these, and leaves names to the paths of requests",
	},
	{
		kinds: `NetworkPolicy`, side: `jobd`, refused: `both`,
		field: `spec\.(ingress|egress)\[\d+\]\.(from|to)\[\d+\]\.ipBlock\.except\[\d+\]`, message: `Invalid value: .*: must be a valid CIDR value.*`,
		why: "of a block that is no CIDR itself a cluster does not look at the exceptions",
	},
	{
		kinds: `Job`, refused: `both`, field: podSpec + `\.(affinity|topologySpreadConstraints).*`,
		why: "of lists longer than their bound jobd looks at no element",
	},
	{
		kinds: withPods, side: `jobd`, refused: `both|jobd`, message: `Invalid value: .*: must be no more than \S+ CPUs`,
		why: "no machine has as many, and sums of them must not overflow",
	},
	{
		kinds: `CronJob`, refused: `both`, field: `spec\.schedule`, message: `(Too long: may not be more than \S+ bytes|Invalid value: .*)`,
		why: "a schedule that is too long is not parsed",
	},
	{
		kinds: withPods, side: `both`, field: `stored .*\.(DefaultUser|DownwardAPI\..*\.User)`,
		why: "a cluster drops these while their feature is switched off; here they work",
	},
	{
		kinds: `PersistentVolume`, side: `jobd`, field: `warning`, message: `spec: this machine has no driver for such a volume .*`,
		why: "a cluster may have a driver",
	},
	{
		kinds: `PersistentVolume`, side: `cluster`, field: `warning`, message: `spec\.\w+: deprecated in .*`,
		why: "that there is no driver is said of all such volumes",
	},
	{
		kinds: withPods, side: `jobd`, message: `Forbidden: jobd does not support this: .*`,
		why: "a field that jobd does not honour is refused, see PODFIELDS.md",
	},
	{
		kinds: withPods, side: `jobd`, field: `warning`,
		why: "what has no effect in jobd is named in the answer",
	},
	{
		kinds: withPods, side: `both`, field: `stored .*EvictionResponders.*`,
		why: "a cluster drops these while its feature is switched off; here the answer says that they have no effect",
	},
	{
		kinds: `CronJob`, verbs: `update`, side: `both`, field: `stored ObjectMeta\.Generation`,
		why: "a change of a field that a cluster drops, since its feature is switched off there, is a change here",
	},
	{
		kinds: withPods, side: `jobd`, field: podSpec + `\..*\.(bindMountOptions\[\d+\]|emptyDir\.mode|httpGet\.(protocol|host))`,
		why: "a cluster drops these while their features are switched off; here they work",
	},
	{
		kinds: withPods, side: `both`, field: `(defaults|stored) .*\.(BindMountOptions|EmptyDir\.Mode|HTTPGet\.Protocol).*`,
		why: "a cluster drops these while their features are switched off; here they work",
	},
	{
		kinds: withPods, field: podSpec + `\.ephemeralContainers.*`, refused: `both`,
		why: "nobody takes a manifest with ephemeral containers; what else is wrong with them is checked when they are added",
	},
	{
		kinds: withPods, side: `jobd|cluster`, field: podSpec + `\.volumes\[\d+\]\.(nfs|image)\..*`, refused: `both`,
		why: "of a volume of several types a cluster checks another one",
	},
	{
		kinds: withPods, side: `cluster`, field: `.*\.volumeMounts\[\d+\]\.name`, message: `Not found: .*`,
		why: "a volume that is refused is known all the same: its mounts are not refused too",
	},
	{
		side: `cluster`, field: `metadata\.finalizers\[\d+\]`,
		why: "api/server checks the names of finalizers, for all kinds in one place",
	},
	{
		side: `cluster|jobd`, field: `spec\.template(\.spec)?`, message: `Invalid value: .*: field is immutable`,
		why: "the whole template in the message is printed from Go types that only a cluster has",
	},
	{
		kinds: `Pod`, side: `both`,
		field: `stored Spec\.(Priority|PreemptionPolicy|Tolerations.*|ServiceAccountName|DeprecatedServiceAccount)`,
		why:   "a cluster's admission plugins do what is done here when a pod is prepared",
	},
	{
		kinds: `Namespace`, side: `both`, field: `defaults Status\.Phase`,
		why: "set when a namespace is prepared: whatever is sent, a new one is Active",
	},
	{
		kinds: `Workload|PodGroup`, side: `both`, field: `stored ObjectMeta\.Generation`,
		why: "a cluster forgets to count these",
	},
	{
		kinds: `Service`,
		why:   "addresses and ports are allocated by the server, before what is compared; there are no load balancers and only IPv4",
	},
	{
		kinds: `Job`, side: `both`, field: `defaults ObjectMeta\.Labels`,
		why: "the labels of the template are copied when a Job is prepared, and stored alike",
	},
	{
		kinds: withPods, side: `both`, field: `(defaults|stored) .*VolumeSource\.(ISCSI|ScaleIO|RBD|AzureDisk|PortworxVolume|Glusterfs|Cinder)\..*`,
		why: "such volumes are refused",
	},
	{
		kinds: withPods, side: `cluster`, verbs: `.*`, field: podSpec + `\.volumes\[\d+\]\.(iscsi|scaleIO|rbd|azureDisk|azureFile|` +
			`portworxVolume|glusterfs|cinder|cephfs|cephFS|flocker|fc|quobyte|storageos|persistentDisk|gcePersistentDisk|` +
			`gitRepo|csi|vsphereVolume|photonPersistentDisk|awsElasticBlockStore|flexVolume).*`,
		why: "such volumes are refused",
	},
	{
		kinds: `Pod`, verbs: `update`,
		why: "of a pod that has been admitted only few fields change: a change of any other is refused as such, and not checked",
	},
	{
		kinds: `Pod|Namespace|PodGroup|PersistentVolumeClaim`, verbs: `update status`,
		why: "jobd itself writes these; what an administrator writes there is checked as far as jobd reads it",
	},
	{
		kinds: `Node`,
		why:   "there is one, which jobd itself makes; of it clients change the taints, and whether pods are scheduled",
	},
	{
		kinds: `EndpointSlice`,
		why:   "jobd itself writes them, for names; those that others write are not used",
	},
	{
		kinds: `Workload|PodGroup`, side: `jobd`, field: `spec.*|warning`,
		why: "what jobd does not know of gangs is refused, or answered with a warning",
	},
	{
		kinds: `RuntimeClass`, side: `cluster|jobd`, refused: `both`, field: `scheduling\.tolerations\[\d+\]`, message: `Duplicate value: .*`,
		why: "the toleration in the message is printed from Go types that only a cluster has",
	},
	{
		kinds: `RuntimeClass`, verbs: `update`, side: `cluster|jobd`, refused: `both`, field: `handler`, message: `Invalid value: .*: field is immutable`,
		why: "a cluster writes null for the value",
	},
	{
		kinds: `Lease`, side: `both`, field: `stored Spec\.(PreferredHolder|Strategy)`,
		why: "a cluster drops these unless it elects the leaders of its own components by them",
	},
	{
		kinds: `Job`, verbs: `update`, side: `cluster`, field: `metadata\.name`, message: `.*: will not able to create pod .*`,
		why: "a name does not change, which the handler sees to",
	},

	{
		kinds: `PersistentVolume|PersistentVolumeClaim`, side: `both`, field: `stored ObjectMeta\.Finalizers.*`,
		why: "a cluster's admission plugins add what protects a claim or volume that is in use",
	},
	{
		kinds: `PersistentVolume|PersistentVolumeClaim`, side: `jobd`, message: `Forbidden: jobd does not support this: .*`,
		why: "volumes are on this machine or on a server for NFS, and made from nothing",
	},
	{
		kinds: `PersistentVolumeClaim`, side: `cluster`, refused: `both`, field: `spec(\.dataSource(Ref)?(\..*)?)?`, message: `(?:[^F]|F[^o]).*`,
		why: "sources of data are refused",
	},
	{
		kinds: `PersistentVolume|PersistentVolumeClaim`, side: `both`,
		field: `(defaults|stored) (Spec\.DataSource(Ref)?|Spec\.PersistentVolumeSource\.(ISCSI|ScaleIO|RBD|AzureDisk|AzureFile|PortworxVolume|Glusterfs|Cinder))(\..*)?`,
		why:   "these are refused",
	},
	{
		kinds: `PersistentVolume`, side: `cluster`, field: `spec\.(iscsi|scaleIO|rbd|azureDisk|azureFile|portworxVolume|glusterfs|cinder|cephfs|cephFS|` +
			`flocker|fc|quobyte|storageos|persistentDisk|gcePersistentDisk|csi|vsphereVolume|photonPersistentDisk|awsElasticBlockStore|flexVolume)(\..*)?`,
		why: "there are no drivers for such volumes, so what is in them does not matter: what uses one waits",
	},
	{
		kinds: `PersistentVolume`, side: `both`, field: `stored Status\.LastPhaseTransitionTime`,
		why: "times are cut to seconds",
	},
	{
		kinds: `PersistentVolume`, field: `spec\.\w+`, message: `Forbidden: may not specify more than \S+ volume type`,
		why: "of several sources of one volume which is the first: a cluster asks in another order, and lets some pass beside others",
	},
	{
		kinds: `PersistentVolume`, refused: `both`, field: `spec\.(nfs|local|hostPath|nodeAffinity)(\..*)?`,
		why: "of several sources of one volume only the first is checked further, and the order differs",
	},
	{
		kinds: `PersistentVolume`, side: `jobd`, field: `spec\.(local|hostPath)\.path`, message: `.*: must be an absolute path`,
		why: "there is nothing that a relative path could start from",
	},
	{
		kinds: `PersistentVolume`, verbs: `update`, side: `cluster|jobd`, refused: `both`, field: `nodeAffinity|spec\.persistentvolumesource`,
		why: "what has changed is printed from Go types that only a cluster has",
	},
	{
		kinds: `PersistentVolumeClaim`, verbs: `update`, side: `cluster|jobd`, refused: `both|jobd`, field: `spec`, message: `Forbidden: spec is immutable .*`,
		why: "what has changed is printed from Go types that only a cluster has; it drops sources of data of which it does not know the kind",
	},
	{
		kinds: `StorageClass`, verbs: `update`, side: `cluster|jobd`, refused: `both`,
		field: `parameters|provisioner|volumeBindingMode|reclaimPolicy`, message: `Invalid value: .*: field is immutable`,
		why: "a cluster writes null for the value",
	},
	{
		kinds: `StorageClass`, side: `jobd`, field: `warning`,
		why: "jobd has one provisioner, and says of classes that name another one that nobody makes their volumes",
	},

	// Fields that are checked, in which rare values are accepted by one side only.
	{
		kinds: withPods + `|PersistentVolume`, side: `cluster`, field: podSpec + `(\.affinity)?\.nodeAffinity\.required.*\.values\[\d+\]`,
		why: "a value that no label can have is not refused: it matches no node",
	},
	{
		kinds: withPods, side: `jobd`, field: podSpec + `\.volumes\[\d+\]\.hostPath\.path`, message: `.*: must be an absolute path`,
		why: "there is nothing that a relative path could start from: a cluster leaves it to the container runtime to fail",
	},
	{
		kinds: withPods, side: `jobd`, field: podSpec + `\.volumes\[\d+\]\.projected\.sources\[\d+\]`, message: `Required value: must specify a source`,
		why: "a source of nothing is a mistake, which a cluster lets pass",
	},
	{
		kinds: withPods, side: `jobd`, field: podSpec + `\.volumes\[\d+\]\.projected\.sources\[\d+\]\.serviceAccountToken\.path`,
		refused: `both`, why: "a cluster leaves the source out of the path of the field",
	},
	{
		kinds: withPods, side: `cluster`, field: podSpec + `\.volumes\[\d+\]\.projected\.path`, message: `Required value`,
		refused: `both`, why: "a cluster leaves the source out of the path of the field",
	},
	{
		kinds: `Pod`, side: `cluster`, field: podSpec + `\.volumes\[\d+\]\.projected\.sources\[\d+\]\.serviceAccountToken`,
		message: `Forbidden: .*serviceAccountName is not set`,
		why:     "a pod without a service account has been given the default one before it is checked",
	},
	{
		kinds: withPods, side: `jobd`, field: podSpec + `\.(c|initC)ontainers\[\d+\]\.env\[\d+\]\.valueFrom\.fileKeyRef\.path`,
		message: `.*: must be a relative path`,
		why:     "the field is documented as a relative path, which a cluster does not check",
	},
	{
		kinds: withPods, side: `jobd`, field: podSpec + `(\.(c|initC)ontainers\[\d+\])?\.securityContext\.seccompProfile\.localhostProfile`, message: `Required value: .*`,
		why: "an empty name of a seccomp profile is none: in a cluster the container fails",
	},
	{
		kinds: `CronJob`, verbs: `update`, side: `cluster`, field: `spec\.jobTemplate\.spec\.scheduling(\..*)?`,
		message: `.*: field cannot be (set once created|cleared once set)|.*: field is immutable`,
		why:     "a cluster checks a change of the template as if it were that of a Job; here it holds for the Jobs made from then on",
	},
	{
		side: `cluster`, field: `warning`,
		message: `.*(imagePullSecrets\[\d+\]\.name: |hostIP set without hostPort|hostAliases\[\d+\]\.ip: duplicate|critical-pod\]: non-functional|used in the Pod's hostname).*`,
		why:     "hints at likely mistakes that jobd does not send",
	},

	{
		kinds: `Job|CronJob`, side: `jobd`, field: podSpec + `\.(c|initC)ontainers\[\d+\]\.image`, message: `.*: must not have leading or trailing whitespace`,
		why: "a cluster accepts a template with such an image, and then refuses each of its pods",
	},

	// Both refuse the object, and say so differently.
	{
		kinds: withPods, refused: `both`,
		field: podSpec + `\.volumes\[\d+\]\.\w+`, message: `Forbidden: may not specify more than 1 volume type`,
		why: "of several sources of one volume which is the first: a cluster asks in another order, and spells one downwarAPI",
	},
	{
		kinds: withPods, refused: `both`,
		field: podSpec + `\.volumes\[\d+\]\.(configMap|secret|downwardAPI|projected|ephemeral|persistentVolumeClaim)(\..*)?`,
		why:   "of several sources of one volume only the first is checked further, and the order differs",
	},
	{
		kinds: withPods, side: `jobd`, refused: `both`,
		field: podSpec + `\.volumes\[\d+\]\.name`, message: `Duplicate value: .*`,
		why: "a cluster does not compare the names of volumes whose source it refuses",
	},
	{
		kinds: withPods, side: `cluster`, refused: `both`,
		field: podSpec + `\.(c|initC)ontainers\[\d+\]\.env\[\d+\]\.valueFrom\.fileKeyRef\.volumeName`, message: `Not found: ""`,
		why: "a name that is required and missing is not looked for too",
	},
	{
		kinds: withPods, refused: `both`,
		field: podSpec + `\.(c|initC)ontainers\[\d+\]\..*\.httpHeaders(\[\d+\]\.name)?`, message: `.*: a valid HTTP header must .*`,
		why: "jobd names the header, a cluster the list of them",
	},
	{
		kinds: withPods, refused: `both`,
		field: podSpec + `\.(c|initC)ontainers\[\d+\]\.volumeMounts(\[\d+\])?\.(subPath|subPathExpr|mountPropagation)`,
		why:   "jobd names the mount, a cluster the list of them",
	},
	{
		kinds: withPods, side: `cluster`, refused: `both`,
		field: podSpec + `\.(c|initC)ontainers\[\d+\]\.volumeMounts\[\d+\]\.(name|mountPath)`, message: `.*must not already exist .*volumeDevices`,
		why: "a volume that is both mounted and a device is refused as a device",
	},
	{
		kinds: withPods, refused: `both`,
		field: podSpec + `\.(c|initC)ontainers\[\d+\]\.volumeDevices\[\d+\]\.name`,
		why:   "a cluster does not know volumes whose source it refuses",
	},
	{
		kinds: withPods, side: `jobd`, refused: `both`,
		field: podSpec + `\.initContainers\[\d+\]\.restartPolicyRules\[\d+\]\..*`,
		why:   "of an init container without a restart policy, which rules need, a cluster does not check the rules",
	},
	{
		kinds: withPods + `|RuntimeClass`, side: `cluster`, refused: `both`,
		field:   `(` + podSpec + `\.((c|initC)ontainers\[\d+\]\.resources|overhead)|overhead)\.(limits|requests)\[.*\]`,
		message: `.*: must be (a standard resource for containers|an integer)`,
		why:     "of a resource whose name is refused nothing else is checked",
	},
	{
		kinds: withPods, refused: `both`,
		field: podSpec + `\.resources(\.containers\[\d+\].*)?(\.(limits|requests)(\[.*\])?)?`,
		why:   "of the resources of a whole pod the names are checked first, and the amounts when these are right",
	},
	{
		kinds: withPods, refused: `both`,
		field:   podSpec + `(\.(c|initC)ontainers\[\d+\])?\.securityContext\.seccompProfile\.localhostProfile`,
		message: `.*: can only be set when seccomp type is Localhost`,
		why:     "the profile in the message is printed from Go types that only a cluster has",
	},
	{
		kinds: withPods, refused: `both`,
		field: podSpec + `\.dnsConfig\.searches\[\d+\]`, message: `.*: a lowercase RFC 1123 subdomain .*`,
		why: "the value in the message: what is left of a domain without the dot at its end",
	},
	{
		kinds: withPods, side: `cluster`, refused: `both`,
		field: `.*annotations\[.*\]`, message: `.*: invalid AppArmor profile name: .*`,
		why: "of an annotation for a container that is not there the profile is not checked too",
	},
	{
		kinds: `Job|CronJob`, side: `jobd`, refused: `both`,
		field: `spec(\.jobTemplate\.spec)?\.scheduling\.resourceClaims.*`,
		why:   "of too many claims a cluster does not check each",
	},
	{
		kinds: `Job|CronJob`, verbs: `update`, side: `jobd`, refused: `both`,
		field: `spec(\.jobTemplate\.spec)?\.scheduling\..*`,
		why:   "a change of what is immutable is checked like a new value too",
	},
	{
		kinds: `Job|CronJob`, verbs: `update`, side: `cluster`, refused: `both`,
		field:   `spec(\.jobTemplate\.spec)?\.scheduling\.(schedulingPolicy|schedulingConstraints|disruptionMode)`,
		message: `.*(immutable|cannot be cleared once set).*`,
		why:     "which member of a union is immutable: jobd names the member, a cluster the union",
	},
	{
		kinds: `Workload|PodGroup`, side: `cluster`, refused: `both`,
		field: `spec|spec\.podGroupTemplates\[\d+\]`, message: `.*(multiple priority configurations|must specify one of|Duplicate value).*`,
		why: "groups in groups and priorities are refused as such; a template in a message is printed with the fields that it has here",
	},
	{
		kinds: `Namespace`, verbs: `update`, side: `cluster`, refused: `both`,
		field: `metadata\.name`, message: `.*: (a lowercase RFC 1123 label|must not contain dots).*`,
		why: "a name does not change: of a new one this is all that is said",
	},
	{
		kinds: `Event`, field: `metadata\..*`,
		why: "the metadata of an event are checked as of all other kinds: a cluster checks only that the name can stand in a path",
	},

	// Values of objects that are filled in otherwise.
	{
		kinds: `Pod`, verbs: `create`, side: `both`, field: `defaults Spec\.Resources\.Requests.*`,
		why: "a cluster fills these in when a pod is prepared, and the same is stored",
	},
	{
		kinds: `Pod`, verbs: `create`, side: `both`, field: `defaults Status\..*`,
		why: "the status that a manifest comes with is dropped, and not filled in before",
	},
	{
		kinds: `Pod`, verbs: `create`, side: `both`, field: `stored Status\.Conditions`,
		why: "a pod that names a node says that this has not taken it yet: no kubelet of another node would say so",
	},
	{
		kinds: `Pod`, verbs: `create`, side: `both`, field: `stored Status\.Conditions\[\]\.(LastTransitionTime|ObservedGeneration)`,
		why: "times are cut to seconds at once; the generation is counted also where a cluster leaves it to its kubelet",
	},
	{
		kinds: `Job`, verbs: `create`, side: `both`, field: `stored ObjectMeta\.Labels\[\]`,
		why: "in the memory of a cluster the labels of a Job that has none are those of its template, and what is generated in one " +
			"shows in the other, as here; the copies that are compared have lost this",
	},
	{
		kinds: withPods, side: `both`, field: `stored .*Containers\[\]\.(Lifecycle|Lifecycle\.StopSignal|\w+Probe\.ProbeHandler\.GRPC\.Mode)`,
		why: "a cluster drops these while their features are switched off",
	},
}
