package upstream

import "regexp"

// difference is something that jobd does in another way than a cluster. All but why are regular expressions.
type difference struct {
	kinds   string
	verbs   string
	side    string // who alone says it: "jobd", "cluster", or "both" where fields have other values
	field   string
	message string
	why     string
	open    bool // whether it has yet to be looked into, or mended

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
		d.pattern = regexp.MustCompile("(?s)^" + any(d.kinds) + and + any(d.verbs) + and + any(d.side) + and + any(d.field) + and + any(d.message) + "$")
	}
	const and = "\x00"
	return d.pattern.MatchString(f.Kind + and + f.Verb + and + f.Side + and + f.Field + and + f.Message)
}

const (
	withPods = `Pod|Job|CronJob`
	podSpec  = `spec(?:\.jobTemplate\.spec)?(?:\.template\.spec)?`
)

// What jobd does on purpose.
var differences = []*difference{
	{
		kinds: withPods, side: `jobd`, message: `Forbidden: jobd does not support this: .*`,
		why: "a field that jobd does not honour is refused, see PODFIELDS.md",
	},
	{
		kinds: withPods, side: `jobd`, field: `warning`,
		why: "what has no effect in jobd is named in the answer",
	},
	{
		kinds: withPods, side: `cluster`, field: `.*\.(resizePolicy|topologySpreadConstraints).*`,
		why: "these have no effect in jobd, which says so, and are not checked in full",
	},
	{
		kinds: withPods, side: `cluster`, field: podSpec + `\.os`,
		why: "the field below is refused with what this machine runs",
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
		why:   "Services are served as far as names go: there are no virtual addresses, ports or load balancers to check",
	},
	{
		kinds: withPods, side: `both`, field: `defaults .*Ephemeral\.VolumeClaimTemplate.*`,
		why: "claims of volumes are refused",
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
			`portworxVolume|glusterfs|cinder|cephfs|cephFS|flocker|fc|quobyte|storageos|nfs|persistentDisk|gcePersistentDisk|` +
			`gitRepo|csi|vsphereVolume|photonPersistentDisk|awsElasticBlockStore|flexVolume|ephemeral|persistentVolumeClaim).*`,
		why: "such volumes are refused",
	},
	{
		kinds: withPods, side: `cluster`, field: podSpec + `(\.hostNetwork)?`, message: `.*(hostProcess|HostProcess).*`,
		why: "fields of Windows are refused",
	},
	{
		kinds: `Pod`, verbs: `update`,
		why: "of a pod that has been admitted only few fields change: a change of any other is refused as such, and not checked",
	},
	{
		kinds: `Pod|Namespace|PodGroup`, verbs: `update status`,
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
		kinds: `Lease`, side: `both`, field: `stored Spec\.(PreferredHolder|Strategy)`,
		why: "a cluster drops these unless it elects the leaders of its own components by them",
	},
	{
		kinds: `Job`, verbs: `update`, side: `cluster`, field: `metadata\.name`, message: `.*: will not able to create pod .*`,
		why: "a name does not change, which the handler sees to",
	},

	// What has not been looked into yet.
	{
		kinds: withPods, field: podSpec + `\.affinity.*`, open: true,
		why: "affinity has no effect in jobd; the keys of labels in it are not checked in full",
	},
	{
		kinds: withPods, field: podSpec + `(\.(c|initC)ontainers\[\d+\])?\.resources.*|defaults .*\.Resources\..*`, open: true,
		why: "the order and number of errors about resources",
	},
	{
		kinds: withPods, field: podSpec + `\.volumes\[\d+\].*|defaults .*\.VolumeSource\..*`, open: true,
		why: "several sources of one volume, and rare values in those that are served",
	},
	{
		kinds: withPods, field: podSpec + `\.(c|initC)ontainers(\[\d+\])+\..*|stored .*Containers.*|defaults .*Containers.*`, open: true,
		why: "rare values in containers",
	},
	{
		kinds: withPods, field: podSpec + `\.(securityContext|schedulingGroup|tolerations|os|shareProcessNamespace|dnsConfig).*|` + podSpec + `|warning|.*annotations.*`, open: true,
		why: "rare values in pods",
	},
	{
		kinds: `Pod`, verbs: `create`, field: `(defaults|stored) (Status|Spec.TerminationGracePeriodSeconds).*`, open: true,
		why: "a negative period of grace, and the addresses of a status that a manifest comes with, which is dropped",
	},
	{
		kinds: `Job|CronJob|Workload|PodGroup`, field: `.*\.scheduling(Policy|Constraints)?(\..*)?|spec|spec\.(podGroupTemplates|schedulingPolicy|compositePodGroupTemplates).*`, open: true,
		why: "gangs in rare forms, and their updates",
	},
	{
		kinds: `Namespace`, field: `spec\.finalizers.*|metadata\.name`, open: true,
		why: "the finalizers of namespaces, by another name of the field",
	},
	{
		kinds: `Event`, open: true,
		why: "names of events",
	},
}
