package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mounted is a spec with one volume at /NAME in c.
func mounted(name, source string) string {
	return `{volumes: [{name: ` + name + `, ` + source + `}], containers: [{name: c, volumeMounts: [{name: ` + name + `, mountPath: /` + name + `}]}]}`
}

// claimed is a volume with a claim of its pod's own.
func claimed(name, more string) string {
	return `{name: ` + name + `, ephemeral: {volumeClaimTemplate: {metadata: {labels: {of: ` + name + `}},
		spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}, limits: {storage: 4Mi}}, ` + more + `}}}}`
}

// ephemeral is a spec with such a volume at /NAME in c.
func ephemeral(name, more string) string {
	return `{volumes: [` + claimed(name, more) + `], containers: [{name: c, volumeMounts: [{name: ` + name + `, mountPath: /` + name + `}]}]}`
}

// claim returns the claim of the pod's own for a volume, and what it is bound to.
func (p *fieldPod) claim(volume string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume) {
	p.t.Helper()
	c, err := p.CoreV1().PersistentVolumeClaims("default").Get(p.t.Context(), p.name+"-"+volume, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	v, err := p.CoreV1().PersistentVolumes().Get(p.t.Context(), c.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	return c, v
}

// isOn checks that what a pod has written to a volume is on one that an administrator has made.
func (p *fieldPod) isOn(volume, made string) {
	p.t.Helper()
	if c, _ := p.claim(volume); c.Spec.VolumeName != made || c.Status.Phase != corev1.ClaimBound {
		p.t.Errorf("it is bound to %s: %+v", c.Spec.VolumeName, c.Status)
	}
	if _, err := os.Stat(filepath.Join(p.world.dir, made, "x")); err != nil {
		p.t.Error(err)
	}
}

// volumeFieldCases are about the types of volumes, and the fields of what fills them.
var volumeFieldCases = []fieldCase{
	{fields: "PodSpec.volumes Volume.name Volume.emptyDir Container.volumeMounts VolumeMount.name VolumeMount.mountPath", pod: "volumes",
		spec: mounted("empty", "emptyDir: {}"), run: `echo x >/empty/x; grep -c ' /empty ' /proc/mounts`, want: "1"},
	{fields: "EmptyDirVolumeSource.medium", pod: "volumes",
		spec: mounted("memory", "emptyDir: {medium: Memory}"), run: `grep ' /memory ' /proc/mounts | cut -d ' ' -f 3`, want: "tmpfs"},
	{fields: "EmptyDirVolumeSource.sizeLimit", test: "TestAnEmptyDirOverItsLimitEvicts"},
	{fields: "EmptyDirVolumeSource.mode", pod: "volumes",
		spec: mounted("sticky", "emptyDir: {mode: 01777}"), run: `stat -c %a /sticky`, want: "1777"},
	{fields: "Volume.hostPath HostPathVolumeSource.path HostPathVolumeSource.type", test: "TestHostPathTypesInPods"},

	{fields: "Volume.configMap ConfigMapVolumeSource.name", pod: "volumes",
		spec: mounted("settings", "configMap: {name: settings}"), run: `cat /settings/color /settings/shape`, want: "blueround"},
	{fields: "ConfigMapVolumeSource.items KeyToPath.key KeyToPath.path KeyToPath.mode", pod: "volumes",
		spec: mounted("some-settings", "configMap: {name: settings, items: [{key: color, path: deep/colour, mode: 0400}]}"),
		run:  `ls /some-settings; cat /some-settings/deep/colour; stat -L -c ' %a' /some-settings/deep/colour`, want: "deep\nblue 400"},
	{fields: "ConfigMapVolumeSource.defaultMode", pod: "volumes",
		spec: mounted("open-settings", "configMap: {name: settings, defaultMode: 0606}"), run: `stat -L -c %a /open-settings/color`, want: "606"},
	{fields: "ConfigMapVolumeSource.optional", pod: "volumes",
		spec: mounted("no-settings", "configMap: {name: missing, optional: true}"), run: `ls /no-settings; echo none`, want: "none"},
	{fields: "ConfigMapVolumeSource.defaultUser KeyToPath.user", pod: "volumes",
		spec: mounted("owned-settings", "configMap: {name: settings, defaultUser: 5, items: [{key: color, path: mine, user: 7}, {key: shape, path: theirs}]}"),
		run:  `cd /owned-settings; stat -L -c %u mine theirs`, want: "7\n5"},

	{fields: "Volume.secret SecretVolumeSource.secretName", pod: "volumes",
		spec: mounted("login", "secret: {secretName: login}"), run: `cat /login/user; grep ' /login ' /proc/mounts | cut -d ' ' -f 3`, want: "metmpfs"},
	{fields: "SecretVolumeSource.items", pod: "volumes",
		spec: mounted(
			"some-login", "secret: {secretName: login, items: [{key: user, path: name}]}",
		), run: `ls /some-login; cat /some-login/name`, want: "name\nme"},
	{fields: "SecretVolumeSource.defaultMode", pod: "volumes",
		spec: mounted("closed-login", "secret: {secretName: login, defaultMode: 0400}"), run: `stat -L -c %a /closed-login/user`, want: "400"},
	{fields: "SecretVolumeSource.optional", pod: "volumes",
		spec: mounted("no-login", "secret: {secretName: missing, optional: true}"), run: `ls /no-login; echo none`, want: "none"},
	{fields: "SecretVolumeSource.defaultUser", pod: "volumes",
		spec: mounted("owned-login", "secret: {secretName: login, defaultUser: 5}"), run: `stat -L -c %u /owned-login/user`, want: "5"},

	{fields: "Volume.downwardAPI DownwardAPIVolumeSource.items DownwardAPIVolumeFile.path DownwardAPIVolumeFile.fieldRef", pod: "volumes",
		spec: mounted(
			"me", `downwardAPI: {items: [{path: deep/labels, fieldRef: {fieldPath: metadata.labels}}]}`,
		), run: `cat /me/deep/labels`, want: `pod="volumes"`},
	{fields: "DownwardAPIVolumeFile.resourceFieldRef DownwardAPIVolumeFile.mode ResourceFieldSelector.containerName", pod: "volumes",
		spec: `{volumes: [{name: mine, downwardAPI: {items: [{path: memory, mode: 0404, resourceFieldRef: {containerName: limited, resource: limits.memory}}]}}],
			containers: [{name: c, volumeMounts: [{name: mine, mountPath: /mine}]}, {name: limited, resources: {limits: {memory: 64Mi}}}]}`,
		run: `cat /mine/memory; stat -L -c ' %a' /mine/memory`, want: "67108864 404"},
	{fields: "DownwardAPIVolumeSource.defaultMode", pod: "volumes",
		spec: mounted(
			"open-me", `downwardAPI: {defaultMode: 0606, items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}`,
		), run: `stat -L -c %a /open-me/name`, want: "606"},
	{fields: "DownwardAPIVolumeSource.defaultUser DownwardAPIVolumeFile.user", pod: "volumes",
		spec: mounted(
			"owned-me",
			`downwardAPI: {defaultUser: 5, items: [{path: name, fieldRef: {fieldPath: metadata.name}}, {path: mine, user: 7, fieldRef: {fieldPath: metadata.name}}]}`,
		),
		run: `cd /owned-me; stat -L -c %u mine name`, want: "7\n5"},

	{fields: "Volume.projected ProjectedVolumeSource.sources VolumeProjection.configMap ConfigMapProjection.name " +
		"VolumeProjection.secret SecretProjection.name VolumeProjection.downwardAPI DownwardAPIProjection.items", pod: "volumes",
		spec: mounted(
			"all",
			`projected: {sources: [{configMap: {name: settings}}, {secret: {name: login}}, {downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]}`,
		),
		run: `cd /all; echo *; cat color user name`, want: "color name password shape user\nbluemevolumes"},
	{fields: "ConfigMapProjection.items SecretProjection.items", pod: "volumes",
		spec: mounted(
			"few",
			`projected: {sources: [{configMap: {name: settings, items: [{key: color, path: colour}]}}, {secret: {name: login, items: [{key: user, path: login/name}]}}]}`,
		),
		run: `cd /few; echo *; cat colour login/name`, want: "colour login\nblueme"},
	{fields: "ConfigMapProjection.optional SecretProjection.optional", pod: "volumes",
		spec: mounted("none", `projected: {sources: [{configMap: {name: missing, optional: true}}, {secret: {name: missing, optional: true}}]}`),
		run:  `ls /none; echo none`, want: "none"},
	{fields: "ProjectedVolumeSource.defaultMode", pod: "volumes",
		spec: mounted("shut", `projected: {defaultMode: 0400, sources: [{configMap: {name: settings}}]}`), run: `stat -L -c %a /shut/color`, want: "400"},
	{fields: "ProjectedVolumeSource.defaultUser ServiceAccountTokenProjection.user", pod: "volumes",
		spec: mounted(
			"owned",
			`projected: {defaultUser: 5, sources: [{configMap: {name: settings}}, {serviceAccountToken: {path: token}}, {serviceAccountToken: {path: mine, user: 7}}]}`,
		),
		run: `cd /owned; stat -L -c '%u %a' mine token color`, want: "7 600\n5 600\n5 644"},
	{fields: "VolumeProjection.serviceAccountToken ServiceAccountTokenProjection.audience " +
		"ServiceAccountTokenProjection.expirationSeconds ServiceAccountTokenProjection.path", pod: "volumes",
		spec: mounted("tokens", `projected: {sources: [{serviceAccountToken: {audience: vault, expirationSeconds: 1234, path: deep/token}}]}`),
		check: func(t *testing.T, p *fieldPod) {
			claims := claimsOf(t, p.sh("c", "cat /tokens/deep/token"))
			if len(claims.Audience) != 1 || claims.Audience[0] != "vault" || claims.Expires-claims.Issued != 1234 {
				t.Errorf("the token claims %+v", claims)
			}
		}},
	{fields: "VolumeProjection.clusterTrustBundle", spec: `volumes: [{name: v, projected: {sources: [{clusterTrustBundle: {name: a, path: a}}]}}]`},
	{
		fields: "VolumeProjection.podCertificate",
		spec:   `volumes: [{name: v, projected: {sources: [{podCertificate: {signerName: a/b, keyType: ED25519, credentialBundlePath: a}}]}}]`,
	},

	{fields: "VolumeMount.readOnly VolumeMount.recursiveReadOnly", test: "TestGroupsAndReadOnlyMounts"},
	{fields: "VolumeMount.subPath", pod: "volumes",
		spec: `{volumes: [{name: parts, emptyDir: {}}], containers: [{name: c, volumeMounts: [{name: parts, mountPath: /parts}, {name: parts, mountPath: /part, subPath: deep/part}]}]}`,
		run:  `echo x >/part/x; find /parts -type f`, want: "/parts/deep/part/x"},
	{fields: "VolumeMount.subPathExpr", pod: "volumes",
		spec: `{volumes: [{name: named, emptyDir: {}}], containers: [{name: c, env: [{name: SELF, valueFrom: {fieldRef: {fieldPath: metadata.name}}}],
			volumeMounts: [{name: named, mountPath: /named}, {name: named, mountPath: /own, subPathExpr: of/$(SELF)}]}]}`,
		run: `echo x >/own/x; find /named -type f`, want: "/named/of/volumes/x"},
	{fields: "VolumeMount.mountPropagation", test: "TestMountPropagation"},
	{fields: "VolumeMount.bindMountOptions", pod: "volumes",
		spec: `{volumes: [{name: data, emptyDir: {}}], containers: [{name: c, volumeMounts: [{name: data, mountPath: /data, bindMountOptions: [noexec]}]}]}`,
		run:  `cp /bin/busybox /data; /data/busybox true || echo refused`, want: "sh: /data/busybox: Permission denied\nrefused"},

	{fields: "Volume.nfs NFSVolumeSource.server NFSVolumeSource.path NFSVolumeSource.readOnly", test: "TestNFSVolume"},
	{fields: "Volume.image ImageVolumeSource.reference", pod: "volumes",
		spec: mounted("image", `image: {reference: "busybox:1.36"}`), run: `cmp /bin/busybox /image/bin/busybox && echo same`, want: "same"},
	{fields: "ImageVolumeSource.pullPolicy", test: "TestImageVolumeThatCannotBeHad"},
	{
		fields: "Volume.persistentVolumeClaim PersistentVolumeClaimVolumeSource.claimName PersistentVolumeClaimVolumeSource.readOnly",
		test:   "TestWhatAPodSeesOfAClaim",
	},
	{fields: "Volume.ephemeral EphemeralVolumeSource.volumeClaimTemplate PersistentVolumeClaimTemplate.spec " +
		"PersistentVolumeClaimTemplate.metadata PersistentVolumeClaimSpec.accessModes PersistentVolumeClaimSpec.storageClassName",
		pod: "claims", spec: ephemeral("scratch", `storageClassName: local`),
		run: `echo x >/scratch/x; ls /scratch`, want: "x",
		check: func(t *testing.T, p *fieldPod) {
			c, v := p.claim("scratch")
			if c.Labels["of"] != "scratch" || *c.Spec.StorageClassName != "local" || v.Spec.StorageClassName != "local" ||
				!slices.Equal(c.Status.AccessModes, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}) {
				t.Errorf("its claim is %+v, and the volume %+v", c, v)
			}
		}},
	{fields: "Container.volumeDevices VolumeDevice.name VolumeDevice.devicePath PersistentVolumeClaimSpec.volumeMode " +
		"PersistentVolumeClaimSpec.resources VolumeResourceRequirements.requests VolumeResourceRequirements.limits",
		pod: "claims", spec: `{hostUsers: true, volumes: [` + claimed(
			"disk", `volumeMode: Block`,
		) + `], containers: [{name: c, volumeDevices: [{name: disk, devicePath: /dev/disk}]}]}`, needs: loops,
		run: `[ -b /dev/disk ] && blockdev --getsize64 /dev/disk; echo words | dd of=/dev/disk conv=fsync 2>/dev/null && head -c 5 /dev/disk`, want: "1048576\nwords"},
	{fields: "PersistentVolumeClaimSpec.selector", pod: "static-claims", spec: ephemeral(
		"selected", `storageClassName: "", selector: {matchLabels: {tier: gold}}`,
	),
		run: `echo x >/selected/x`, check: func(t *testing.T, p *fieldPod) { p.isOn("selected", "golden") }},
	{fields: "PersistentVolumeClaimSpec.volumeName", pod: "static-claims", spec: ephemeral("named", `storageClassName: "", volumeName: silver`),
		run: `echo x >/named/x`, check: func(t *testing.T, p *fieldPod) { p.isOn("named", "silver") }},
	{fields: "PersistentVolumeClaimSpec.dataSource", spec: ephemeral("v", `dataSource: {kind: PersistentVolumeClaim, name: other}`)},
	{fields: "PersistentVolumeClaimSpec.dataSourceRef", spec: ephemeral("v", `dataSourceRef: {kind: PersistentVolumeClaim, name: other}`)},
	{fields: "PersistentVolumeClaimSpec.volumeAttributesClassName", spec: ephemeral("v", `volumeAttributesClassName: gold`)},
	{fields: "Volume.gcePersistentDisk", spec: `volumes: [{name: v, gcePersistentDisk: {pdName: a}}]`},
	{fields: "Volume.awsElasticBlockStore", spec: `volumes: [{name: v, awsElasticBlockStore: {volumeID: a}}]`},
	{fields: "Volume.gitRepo", spec: `volumes: [{name: v, gitRepo: {repository: a}}]`},
	{fields: "Volume.iscsi", spec: `volumes: [{name: v, iscsi: {targetPortal: a, iqn: b, lun: 0}}]`},
	{fields: "Volume.glusterfs", spec: `volumes: [{name: v, glusterfs: {endpoints: a, path: b}}]`},
	{fields: "Volume.rbd", spec: `volumes: [{name: v, rbd: {monitors: [a], image: b}}]`},
	{fields: "Volume.flexVolume", spec: `volumes: [{name: v, flexVolume: {driver: a/b}}]`},
	{fields: "Volume.cinder", spec: `volumes: [{name: v, cinder: {volumeID: a}}]`},
	{fields: "Volume.cephfs", spec: `volumes: [{name: v, cephfs: {monitors: [a]}}]`},
	{fields: "Volume.flocker", spec: `volumes: [{name: v, flocker: {datasetName: a}}]`},
	{fields: "Volume.fc", spec: `volumes: [{name: v, fc: {targetWWNs: [a], lun: 0}}]`},
	{fields: "Volume.azureFile", spec: `volumes: [{name: v, azureFile: {secretName: a, shareName: b}}]`},
	{fields: "Volume.azureDisk", spec: `volumes: [{name: v, azureDisk: {diskName: a, diskURI: b}}]`},
	{fields: "Volume.vsphereVolume", spec: `volumes: [{name: v, vsphereVolume: {volumePath: a}}]`},
	{fields: "Volume.quobyte", spec: `volumes: [{name: v, quobyte: {registry: "a:1", volume: b}}]`},
	{fields: "Volume.photonPersistentDisk", spec: `volumes: [{name: v, photonPersistentDisk: {pdID: a}}]`},
	{fields: "Volume.portworxVolume", spec: `volumes: [{name: v, portworxVolume: {volumeID: a}}]`},
	{fields: "Volume.scaleIO", spec: `volumes: [{name: v, scaleIO: {gateway: a, system: b, volumeName: c, secretRef: {name: d}}}]`},
	{fields: "Volume.storageos", spec: `volumes: [{name: v, storageos: {volumeName: a}}]`},
	{fields: "Volume.csi", spec: `volumes: [{name: v, csi: {driver: a.example}}]`},
}
