package core

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// support says what jobd does with one field of a Pod. A field that it does not honour is never dropped in silence.
type support struct {
	effect effect
	reason string // or a note on what works
	// fine reports whether a value is accepted without a message in spite of the effect. It gets the value, the struct
	// that contains it, and the Pod's spec.
	fine func(value, parent any, pod *corev1.PodSpec) bool
	// except lists those values for PODFIELDS.md, if they are few.
	except []any
}

type effect int

const (
	honours effect = iota // honoured; for a struct in the table, field by field
	warns                 // stored without effect, which does no harm on one node; the answer carries a warning
	refuses               // refused, since the Pod would not be what its manifest says
)

func works() support                { return support{effect: honours} }
func as(note string) support        { return support{effect: honours, reason: note} }
func warn(reason string) support    { return support{effect: warns, reason: reason} }
func refused(reason string) support { return support{effect: refuses, reason: reason} }

// unless excepts the values for which fine returns true.
func (s support) unless(fine func(value, parent any, pod *corev1.PodSpec) bool) support {
	s.fine = fine
	return s
}

// but excepts some values of a field.
func (s support) but(values ...any) support {
	s.except = values
	return s.unless(func(value, _ any, _ *corev1.PodSpec) bool { return slices.Contains(values, value) })
}

// Reasons that several fields share.
const (
	noClaims  = "resource claims are not implemented yet; request a device that a CDI file describes instead"
	noForeign = "it takes a driver of a cluster; mount the storage on this machine and use a PersistentVolume of the type " +
		"local, or use one of the type nfs, or an image volume"
	ifSELinux   = "without effect on a host without SELinux"
	noWindows   = "no container of Windows runs on this machine, whose node rejects the pod"
	noRequests  = "there are no EvictionRequests that a responder could answer: pods are evicted at once"
	oneNode     = "there is one node"
	noEphemeral = "cannot be set for an Ephemeral Container" // a cluster's words
)

// podSupport classifies every field of a Pod's spec, by type and by the field's name in a manifest. PODFIELDS.md, the list
// for users, is generated from it. To let a field through, move its line to works(). A test compares the table with the
// API's types, so that a field of a new version has to be classified first.
var podSupport = map[reflect.Type]map[string]support{
	reflect.TypeFor[corev1.PodSpec](): {
		"volumes":                       works(),
		"initContainers":                works(),
		"containers":                    works(),
		"ephemeralContainers":           as("added to a pod that exists, with `kubectl debug`"),
		"restartPolicy":                 works(),
		"terminationGracePeriodSeconds": works(),
		"activeDeadlineSeconds":         works(),
		"dnsPolicy":                     works(),
		"nodeSelector":                  works(),
		"serviceAccountName":            works(),
		"serviceAccount":                works(), // always the same as serviceAccountName
		"automountServiceAccountToken":  works(),
		"nodeName":                      as("a pod for another node stays Pending"),
		"hostNetwork":                   works(),
		"hostPID":                       works(),
		"hostIPC":                       works(),
		"shareProcessNamespace":         works(),
		"securityContext":               works(),
		"imagePullSecrets":              works(),
		"hostname":                      works(),
		"subdomain":                     works(),
		"affinity":                      works(),
		"schedulerName":                 warn("jobd schedules every pod itself").but(corev1.DefaultSchedulerName),
		"tolerations":                   works(),
		"hostAliases":                   works(),
		"priorityClassName":             works(),
		"priority":                      works(),
		"dnsConfig":                     works(),
		"readinessGates":                works(),
		"runtimeClassName":              works(),
		"enableServiceLinks":            works(),
		"preemptionPolicy":              works(),
		"overhead":                      works(),
		"topologySpreadConstraints":     works(),
		"setHostnameAsFQDN":             works(),
		"os":                            works(),
		"hostUsers":                     works(), // the runtime refuses what the host cannot do
		"schedulingGates":               works(),
		"resourceClaims":                refused(noClaims),
		"resources":                     works(),
		"hostnameOverride":              works(),
		"schedulingGroup":               works(),
		"evictionResponders":            warn(noRequests),
	},
	reflect.TypeFor[corev1.Affinity](): {
		"nodeAffinity": works(), "podAffinity": works(), "podAntiAffinity": works(),
	},
	reflect.TypeFor[corev1.PodAffinity](): {
		"requiredDuringSchedulingIgnoredDuringExecution":  works(),
		"preferredDuringSchedulingIgnoredDuringExecution": warn(oneNode),
	},
	reflect.TypeFor[corev1.PodAntiAffinity](): {
		"requiredDuringSchedulingIgnoredDuringExecution":  works(),
		"preferredDuringSchedulingIgnoredDuringExecution": warn(oneNode),
	},
	reflect.TypeFor[corev1.PodAffinityTerm](): {
		"labelSelector": works(), "namespaces": works(), "topologyKey": works(), "namespaceSelector": works(),
		"matchLabelKeys": works(), "mismatchLabelKeys": works(),
	},
	reflect.TypeFor[corev1.TopologySpreadConstraint](): {
		"maxSkew": works(), "topologyKey": works(), "labelSelector": works(), "minDomains": works(),
		"nodeAffinityPolicy": works(), "nodeTaintsPolicy": works(), "matchLabelKeys": works(),
		"whenUnsatisfiable": warn(oneNode).but(corev1.DoNotSchedule),
	},
	reflect.TypeFor[corev1.NodeAffinity](): {
		"requiredDuringSchedulingIgnoredDuringExecution":  works(),
		"preferredDuringSchedulingIgnoredDuringExecution": warn(oneNode),
	},
	reflect.TypeFor[corev1.NodeSelector]():            {"nodeSelectorTerms": works()},
	reflect.TypeFor[corev1.NodeSelectorTerm]():        {"matchExpressions": works(), "matchFields": works()},
	reflect.TypeFor[corev1.NodeSelectorRequirement](): {"key": works(), "operator": works(), "values": works()},
	reflect.TypeFor[corev1.ContainerResizePolicy]():   {"resourceName": works(), "restartPolicy": works()},
	reflect.TypeFor[corev1.Container](): {
		"name":                     works(),
		"image":                    works(),
		"command":                  works(),
		"args":                     works(),
		"workingDir":               works(),
		"ports":                    works(),
		"envFrom":                  works(),
		"env":                      works(),
		"resources":                works(),
		"resizePolicy":             works(),
		"restartPolicy":            works(),
		"restartPolicyRules":       works(),
		"volumeMounts":             works(),
		"volumeDevices":            works(),
		"livenessProbe":            works(),
		"readinessProbe":           works(),
		"startupProbe":             works(),
		"lifecycle":                works(),
		"terminationMessagePath":   works(),
		"terminationMessagePolicy": works(),
		"imagePullPolicy":          works(),
		"securityContext":          works(),
		"stdin":                    works(),
		"stdinOnce":                works(),
		"tty":                      works(),
	},
	reflect.TypeFor[corev1.Volume](): {"name": works()},
	reflect.TypeFor[corev1.VolumeSource](): {
		"emptyDir":              works(),
		"hostPath":              works(),
		"configMap":             works(),
		"secret":                works(),
		"projected":             works(),
		"downwardAPI":           works(),
		"image":                 works(),
		"persistentVolumeClaim": works(),
		"ephemeral":             works(),
		"csi":                   refused(noForeign),
		"nfs":                   works(),
		"iscsi":                 refused(noForeign),
		"gitRepo":               refused("clusters have removed it; clone the repository into an emptyDir in an init container"),
		"gcePersistentDisk":     refused(noForeign),
		"awsElasticBlockStore":  refused(noForeign),
		"glusterfs":             refused(noForeign),
		"rbd":                   refused(noForeign),
		"flexVolume":            refused(noForeign),
		"cinder":                refused(noForeign),
		"cephfs":                refused(noForeign),
		"flocker":               refused(noForeign),
		"fc":                    refused(noForeign),
		"azureFile":             refused(noForeign),
		"azureDisk":             refused(noForeign),
		"vsphereVolume":         refused(noForeign),
		"quobyte":               refused(noForeign),
		"photonPersistentDisk":  refused(noForeign),
		"portworxVolume":        refused(noForeign),
		"scaleIO":               refused(noForeign),
		"storageos":             refused(noForeign),
	},
	reflect.TypeFor[corev1.EmptyDirVolumeSource](): {
		"medium":    works(),
		"sizeLimit": works(),
		"mode":      works(),
	},
	reflect.TypeFor[corev1.NFSVolumeSource]():                   {"server": works(), "path": works(), "readOnly": works()},
	reflect.TypeFor[corev1.ImageVolumeSource]():                 {"reference": works(), "pullPolicy": works()},
	reflect.TypeFor[corev1.PersistentVolumeClaimVolumeSource](): {"claimName": works(), "readOnly": works()},
	reflect.TypeFor[corev1.EphemeralVolumeSource]():             {"volumeClaimTemplate": works()},
	reflect.TypeFor[corev1.PersistentVolumeClaimTemplate]():     {"metadata": works(), "spec": works()},
	reflect.TypeFor[corev1.PersistentVolumeClaimSpec](): {
		"accessModes":               works(),
		"selector":                  works(),
		"resources":                 works(),
		"volumeName":                works(),
		"storageClassName":          works(),
		"volumeMode":                works(),
		"dataSource":                refused(noDataSource),
		"dataSourceRef":             refused(noDataSource),
		"volumeAttributesClassName": refused(noAttributeClasses),
	},
	reflect.TypeFor[corev1.VolumeResourceRequirements](): {"limits": works(), "requests": works()},
	reflect.TypeFor[corev1.VolumeDevice]():               {"name": works(), "devicePath": works()},
	reflect.TypeFor[corev1.HostPathVolumeSource]():       {"path": works(), "type": works()},
	reflect.TypeFor[corev1.ConfigMapVolumeSource](): {
		"items": works(), "defaultMode": works(), "optional": works(), "defaultUser": works(),
	},
	reflect.TypeFor[corev1.SecretVolumeSource](): {
		"secretName": works(), "items": works(), "defaultMode": works(), "optional": works(),
		"defaultUser": works(),
	},
	reflect.TypeFor[corev1.KeyToPath](): {
		"key": works(), "path": works(), "mode": works(), "user": works(),
	},
	reflect.TypeFor[corev1.DownwardAPIVolumeSource](): {
		"items": works(), "defaultMode": works(), "defaultUser": works(),
	},
	reflect.TypeFor[corev1.DownwardAPIVolumeFile](): {
		"path": works(), "fieldRef": works(), "resourceFieldRef": works(), "mode": works(), "user": works(),
	},
	reflect.TypeFor[corev1.ProjectedVolumeSource](): {
		"sources": works(), "defaultMode": works(), "defaultUser": works(),
	},
	reflect.TypeFor[corev1.VolumeProjection](): {
		"secret":              works(),
		"downwardAPI":         works(),
		"configMap":           works(),
		"serviceAccountToken": works(),
		"clusterTrustBundle":  refused("trust bundles exist only in clusters"),
		"podCertificate":      refused("certificates for pods exist only in clusters"),
	},
	reflect.TypeFor[corev1.LocalObjectReference]():  {"name": works()},
	reflect.TypeFor[corev1.SecretProjection]():      {"items": works(), "optional": works()},
	reflect.TypeFor[corev1.ConfigMapProjection]():   {"items": works(), "optional": works()},
	reflect.TypeFor[corev1.DownwardAPIProjection](): {"items": works()},
	reflect.TypeFor[corev1.ServiceAccountTokenProjection](): {
		"audience": works(), "expirationSeconds": works(), "path": works(), "user": works(),
	},
	reflect.TypeFor[corev1.VolumeMount](): {
		"name":              works(),
		"readOnly":          works(),
		"recursiveReadOnly": works(),
		"mountPath":         works(),
		"subPath":           works(),
		"mountPropagation":  works(),
		"subPathExpr":       works(),
		"bindMountOptions":  works(),
	},
	reflect.TypeFor[corev1.EphemeralContainer](): {"targetContainerName": works()},
	reflect.TypeFor[corev1.EphemeralContainerCommon](): {
		"name":                     works(),
		"image":                    works(),
		"command":                  works(),
		"args":                     works(),
		"workingDir":               works(),
		"ports":                    refused(noEphemeral),
		"envFrom":                  works(),
		"env":                      works(),
		"resources":                refused(noEphemeral),
		"resizePolicy":             refused(noEphemeral),
		"restartPolicy":            refused(noEphemeral),
		"restartPolicyRules":       refused(noEphemeral),
		"volumeMounts":             works(),
		"volumeDevices":            works(),
		"livenessProbe":            refused(noEphemeral),
		"readinessProbe":           refused(noEphemeral),
		"startupProbe":             refused(noEphemeral),
		"lifecycle":                refused(noEphemeral),
		"terminationMessagePath":   works(),
		"terminationMessagePolicy": works(),
		"imagePullPolicy":          works(),
		"securityContext":          works(),
		"stdin":                    works(),
		"stdinOnce":                works(),
		"tty":                      works(),
	},
	reflect.TypeFor[corev1.ContainerPort](): {
		"name":          works(),
		"hostPort":      works(),
		"containerPort": works(),
		"protocol":      works(),
		"hostIP":        refused("host ports are mapped only on the IPv4 addresses of the host").unless(isIPv4),
	},
	reflect.TypeFor[corev1.EnvVar](): {"name": works(), "value": works(), "valueFrom": works()},
	reflect.TypeFor[corev1.EnvVarSource](): {
		"fieldRef":         works(),
		"resourceFieldRef": works(),
		"configMapKeyRef":  works(),
		"secretKeyRef":     works(),
		"fileKeyRef":       works(),
	},
	reflect.TypeFor[corev1.EnvFromSource]():        {"prefix": works(), "configMapRef": works(), "secretRef": works()},
	reflect.TypeFor[corev1.ConfigMapEnvSource]():   {"optional": works()},
	reflect.TypeFor[corev1.SecretEnvSource]():      {"optional": works()},
	reflect.TypeFor[corev1.ConfigMapKeySelector](): {"key": works(), "optional": works()},
	reflect.TypeFor[corev1.SecretKeySelector]():    {"key": works(), "optional": works()},
	reflect.TypeFor[corev1.FileKeySelector](): {
		"volumeName": works(), "path": works(), "key": works(), "optional": works(),
	},
	reflect.TypeFor[corev1.ObjectFieldSelector](): {"apiVersion": works(), "fieldPath": works()},
	reflect.TypeFor[corev1.ResourceFieldSelector](): {
		"containerName": works(), "resource": works(), "divisor": works(),
	},
	reflect.TypeFor[corev1.ResourceRequirements](): {
		"limits":   works(),
		"requests": works(),
		"claims":   refused(noClaims),
	},
	reflect.TypeFor[corev1.ResourceList](): {
		string(corev1.ResourceCPU):              works(),
		string(corev1.ResourceMemory):           works(),
		string(corev1.ResourceEphemeralStorage): works(),
		corev1.ResourceHugePagesPrefix:          as("limited for a pod where the cgroups of its containers have the controller `hugetlb`"),
		anyOther:                                as("devices that a CDI file describes; resources that --allocatable names are only counted"),
	},
	reflect.TypeFor[corev1.ContainerRestartRule]():            {"action": works(), "exitCodes": works()},
	reflect.TypeFor[corev1.ContainerRestartRuleOnExitCodes](): {"operator": works(), "values": works()},
	reflect.TypeFor[corev1.Lifecycle](): {
		"postStart":  works(),
		"preStop":    works(),
		"stopSignal": works(),
	},
	reflect.TypeFor[corev1.LifecycleHandler](): {
		"exec": works(), "httpGet": works(), "tcpSocket": works(), "sleep": works(),
	},
	reflect.TypeFor[corev1.Probe](): {
		"initialDelaySeconds":           works(),
		"timeoutSeconds":                works(),
		"periodSeconds":                 works(),
		"successThreshold":              works(),
		"failureThreshold":              works(),
		"terminationGracePeriodSeconds": works(),
	},
	reflect.TypeFor[corev1.ProbeHandler](): {
		"exec": works(), "httpGet": works(), "tcpSocket": works(), "grpc": works(),
	},
	reflect.TypeFor[corev1.ExecAction](): {"command": works()},
	reflect.TypeFor[corev1.HTTPGetAction](): {
		"path": works(), "port": works(), "host": works(), "scheme": works(), "httpHeaders": works(),
		"protocol": works(),
	},
	reflect.TypeFor[corev1.HTTPHeader]():      {"name": works(), "value": works()},
	reflect.TypeFor[corev1.TCPSocketAction](): {"port": works(), "host": works()},
	reflect.TypeFor[corev1.GRPCAction]():      {"port": works(), "service": works(), "mode": works()},
	reflect.TypeFor[corev1.SleepAction]():     {"seconds": works()},
	reflect.TypeFor[corev1.PodSecurityContext](): {
		"seLinuxOptions":           as(ifSELinux),
		"windowsOptions":           warn(noWindows),
		"runAsUser":                works(),
		"runAsGroup":               works(),
		"runAsNonRoot":             works(),
		"supplementalGroups":       works(),
		"supplementalGroupsPolicy": works(),
		"fsGroup":                  works(),
		"sysctls":                  works(),
		"fsGroupChangePolicy":      works(),
		"seccompProfile":           works(),
		"appArmorProfile":          works(),
		"seLinuxChangePolicy":      as("volumes are labelled file by file, as with `Recursive`, whichever policy is named"),
	},
	reflect.TypeFor[corev1.SecurityContext](): {
		"capabilities":             works(),
		"privileged":               works(),
		"seLinuxOptions":           as(ifSELinux),
		"windowsOptions":           warn(noWindows),
		"runAsUser":                works(),
		"runAsGroup":               works(),
		"runAsNonRoot":             works(),
		"readOnlyRootFilesystem":   works(),
		"allowPrivilegeEscalation": works(),
		"procMount":                works(),
		"seccompProfile":           works(),
		"appArmorProfile":          works(),
	},
	reflect.TypeFor[corev1.Capabilities](): {"add": works(), "drop": works()},
	reflect.TypeFor[corev1.SeccompProfile](): {
		"type":             works(),
		"localhostProfile": works(),
	},
	reflect.TypeFor[corev1.AppArmorProfile](): {
		"type":             works(),
		"localhostProfile": works(),
	},
	reflect.TypeFor[corev1.SELinuxOptions](): {"user": works(), "role": works(), "type": works(), "level": works()},
	reflect.TypeFor[corev1.Sysctl](): {
		"name":  as("the node rejects pods with others than the safe ones and those of `--allowed-unsafe-sysctls`"),
		"value": works(),
	},
	reflect.TypeFor[corev1.HostAlias]():          {"ip": works(), "hostnames": works()},
	reflect.TypeFor[corev1.PodDNSConfig]():       {"nameservers": works(), "searches": works(), "options": works()},
	reflect.TypeFor[corev1.PodDNSConfigOption](): {"name": works(), "value": works()},
	reflect.TypeFor[corev1.PodReadinessGate]():   {"conditionType": works()},
	reflect.TypeFor[corev1.PodSchedulingGate]():  {"name": works()},
	reflect.TypeFor[corev1.Toleration](): {
		"key": works(), "operator": works(), "value": works(), "effect": works(), "tolerationSeconds": works(),
	},
	reflect.TypeFor[corev1.PodSchedulingGroup](): {"podGroupName": works()},
	reflect.TypeFor[corev1.PodOS]():              {"name": as("the node rejects pods for Windows with PodOSNotSupported")},
}

// anyOther stands for every resource that is not named.
const anyOther = "*"

func isIPv4(value, _ any, pod *corev1.PodSpec) bool {
	ip, err := netip.ParseAddr(value.(string))
	return pod.HostNetwork || err == nil && ip.Is4()
}

// unsupported refuses each field that is set and that jobd does not honour; path is the spec's.
func unsupported(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	eachUnhonoured(spec, path, refusals(&errs))
	return errs
}

// refusals returns a function that collects what is refused.
func refusals(errs *field.ErrorList) func(support, *field.Path) {
	return func(s support, path *field.Path) {
		switch {
		case s.effect != refuses:
		case s.reason == noEphemeral:
			*errs = append(*errs, field.Forbidden(path, s.reason))
		default:
			*errs = append(*errs, unsupportedField(path, s.reason))
		}
	}
}

// unsupportedEphemeral does the same for one ephemeral container, whose path is given.
func unsupportedEphemeral(spec *corev1.PodSpec, i int, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	w := walker{pod: spec, found: refusals(&errs)}
	w.fields(reflect.ValueOf(&spec.EphemeralContainers[i]).Elem(), path)
	return errs
}

func unsupportedField(path *field.Path, reason string) *field.Error {
	return field.Forbidden(path, "jobd does not support this: "+reason)
}

// warnings names each field that is set and has no effect here, without harm; path is the spec's.
func warnings(spec *corev1.PodSpec, path *field.Path) []string {
	var out []string
	eachUnhonoured(spec, path, func(s support, path *field.Path) {
		if s.effect == warns {
			out = append(out, fmt.Sprintf("%s: has no effect in jobd: %s", path, s.reason))
		}
	})
	return out
}

func eachUnhonoured(spec *corev1.PodSpec, path *field.Path, found func(support, *field.Path)) {
	w := walker{pod: spec, found: found}
	w.fields(reflect.ValueOf(spec).Elem(), path)
}

// walker visits the fields of a spec that are set, in the order of the types' fields.
type walker struct {
	pod   *corev1.PodSpec
	found func(support, *field.Path)
}

func (w walker) fields(v reflect.Value, path *field.Path) {
	t := v.Type()
	for i := range t.NumField() {
		value := v.Field(i)
		if !isSet(value) { // most are not, and their names take longer to find
			continue
		}
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name == "" { // inlined
			w.fields(value, path)
			continue
		}
		w.value(podSupport[t][name], reflect.Indirect(value), v, path.Child(name))
	}
}

func (w walker) value(s support, value, parent reflect.Value, path *field.Path) {
	if s.effect != honours {
		if s.fine == nil || !s.fine(value.Interface(), parent.Interface(), w.pod) {
			w.found(s, path)
		}
		return
	}
	switch {
	case value.Type() == reflect.TypeFor[corev1.ResourceList]():
		w.resources(value.Interface().(corev1.ResourceList), parent, path)
	case podSupport[value.Type()] != nil:
		w.fields(value, path)
	case value.Kind() == reflect.Slice && podSupport[value.Type().Elem()] != nil:
		for i := range value.Len() {
			w.fields(value.Index(i), path.Index(i))
		}
	}
}

func (w walker) resources(list corev1.ResourceList, parent reflect.Value, path *field.Path) {
	known := podSupport[reflect.TypeFor[corev1.ResourceList]()]
	for _, name := range sortedKeys(list) {
		s, ok := known[string(name)]
		switch {
		case ok:
		case strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix):
			s = known[corev1.ResourceHugePagesPrefix]
		default:
			s = known[anyOther]
		}
		w.value(s, reflect.ValueOf(list[name]), parent, path.Key(string(name)))
	}
}

// isSet reports whether a manifest has set a field. A pointer counts as set even if it points to a zero value.
func isSet(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	}
	return !v.IsZero()
}
