package core

import (
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateVolumes(volumes []corev1.Volume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range volumes {
		v, at := &volumes[i], at.Index(i)
		errs = append(errs, validateVolumeSource(&v.VolumeSource, at)...)
		if v.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		errs = append(errs, dnsLabel(at.Child("name"), v.Name)...)
		if names[v.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), v.Name))
		}
		names[v.Name] = true
	}
	return errs
}

// validateVolumeSource checks the sources that jobd knows of, built or not yet. Of the others it checks only that no
// other source is set: they are refused whatever they contain.
func validateVolumeSource(s *corev1.VolumeSource, at *field.Path) field.ErrorList {
	one := exactlyOne{path: at, what: "volume"}
	one.member("emptyDir", s.EmptyDir != nil, func(at *field.Path) field.ErrorList {
		var errs field.ErrorList
		if l := s.EmptyDir.SizeLimit; l != nil && l.Sign() < 0 {
			errs = append(errs, field.Forbidden(at.Child("sizeLimit"), "SizeLimit field must be a valid resource quantity"))
		}
		if m := s.EmptyDir.Mode; m != nil && (*m < 0 || *m > 0o1777) {
			errs = append(errs, field.Invalid(at.Child("mode"), *m, "must be a number between 0 and 01777 (octal), both inclusive"))
		}
		return errs
	})
	one.member("hostPath", s.HostPath != nil, func(at *field.Path) field.ErrorList { return validateHostPath(s.HostPath, at) })
	one.member("configMap", s.ConfigMap != nil, func(at *field.Path) field.ErrorList {
		errs := required(at.Child("name"), s.ConfigMap.Name)
		return append(errs, validateFiles(s.ConfigMap.DefaultMode, s.ConfigMap.DefaultUser, s.ConfigMap.Items, at)...)
	})
	one.member("secret", s.Secret != nil, func(at *field.Path) field.ErrorList {
		errs := required(at.Child("secretName"), s.Secret.SecretName)
		return append(errs, validateFiles(s.Secret.DefaultMode, s.Secret.DefaultUser, s.Secret.Items, at)...)
	})
	one.member("downwardAPI", s.DownwardAPI != nil, func(at *field.Path) field.ErrorList {
		errs := validateMode(s.DownwardAPI.DefaultMode, at.Child("defaultMode"))
		errs = append(errs, validateFileOwner(s.DownwardAPI.DefaultUser, at.Child("defaultUser"))...)
		return append(errs, validateDownwardFiles(s.DownwardAPI.Items, at)...)
	})
	one.member("projected", s.Projected != nil, func(at *field.Path) field.ErrorList { return validateProjected(s.Projected, at) })
	one.member("persistentVolumeClaim", s.PersistentVolumeClaim != nil, func(at *field.Path) field.ErrorList {
		return required(at.Child("claimName"), s.PersistentVolumeClaim.ClaimName)
	})
	one.member("ephemeral", s.Ephemeral != nil, func(at *field.Path) field.ErrorList {
		at = at.Child("volumeClaimTemplate")
		if s.Ephemeral.VolumeClaimTemplate == nil {
			return field.ErrorList{field.Required(at, "")}
		}
		return validateClaimTemplate(s.Ephemeral.VolumeClaimTemplate, at)
	})
	one.member("nfs", s.NFS != nil, func(at *field.Path) field.ErrorList { return validateNFS(s.NFS, at) })
	one.member("image", s.Image != nil, func(at *field.Path) field.ErrorList {
		errs := required(at.Child("reference"), s.Image.Reference)
		return append(errs, requiredOneOf(at.Child("pullPolicy"), s.Image.PullPolicy,
			[]corev1.PullPolicy{corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever})...)
	})
	for _, other := range []struct {
		name string
		set  bool
	}{
		{"gcePersistentDisk", s.GCEPersistentDisk != nil}, {"awsElasticBlockStore", s.AWSElasticBlockStore != nil},
		{"gitRepo", s.GitRepo != nil}, {"iscsi", s.ISCSI != nil}, {"glusterfs", s.Glusterfs != nil},
		{"rbd", s.RBD != nil}, {"flexVolume", s.FlexVolume != nil}, {"cinder", s.Cinder != nil}, {"cephfs", s.CephFS != nil},
		{"flocker", s.Flocker != nil}, {"fc", s.FC != nil}, {"azureFile", s.AzureFile != nil}, {"azureDisk", s.AzureDisk != nil},
		{"vsphereVolume", s.VsphereVolume != nil}, {"quobyte", s.Quobyte != nil}, {"photonPersistentDisk", s.PhotonPersistentDisk != nil},
		{"portworxVolume", s.PortworxVolume != nil}, {"scaleIO", s.ScaleIO != nil}, {"storageos", s.StorageOS != nil},
		{"csi", s.CSI != nil},
	} {
		one.member(other.name, other.set, nil)
	}
	return one.result()
}

var hostPathTypes = []corev1.HostPathType{
	corev1.HostPathUnset, corev1.HostPathBlockDev, corev1.HostPathCharDev, corev1.HostPathDirectory,
	corev1.HostPathDirectoryOrCreate, corev1.HostPathFile, corev1.HostPathFileOrCreate, corev1.HostPathSocket,
}

func validateHostPath(h *corev1.HostPathVolumeSource, at *field.Path) field.ErrorList {
	if h.Path == "" {
		return field.ErrorList{field.Required(at.Child("path"), "")}
	}
	errs := noBacksteps(at.Child("path"), h.Path)
	if !path.IsAbs(h.Path) {
		errs = append(errs, field.Invalid(at.Child("path"), h.Path, "must be an absolute path"))
	}
	if h.Type != nil {
		errs = append(errs, oneOf(at.Child("type"), *h.Type, hostPathTypes)...)
	}
	return errs
}

func validateFiles(mode *int32, user *int64, items []corev1.KeyToPath, at *field.Path) field.ErrorList {
	errs := validateMode(mode, at.Child("defaultMode"))
	errs = append(errs, validateFileOwner(user, at.Child("defaultUser"))...)
	for i, item := range items {
		at := at.Child("items").Index(i)
		errs = append(errs, required(at.Child("key"), item.Key)...)
		errs = append(errs, validateFilePath(item.Path, at.Child("path"))...)
		errs = append(errs, validateMode(item.Mode, at.Child("mode"))...)
		errs = append(errs, validateFileOwner(item.User, at.Child("user"))...)
	}
	return errs
}

// validateDownwardFiles names fields as a cluster does, as if they were those of the volume itself.
func validateDownwardFiles(items []corev1.DownwardAPIVolumeFile, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range items {
		item := &items[i]
		errs = append(errs, validateFilePath(item.Path, at.Child("path"))...)
		switch {
		case item.FieldRef != nil:
			errs = append(errs, validateFieldRef(item.FieldRef, fileFieldPaths, at.Child("fieldRef"))...)
			if item.ResourceFieldRef != nil {
				errs = append(errs,
					field.Invalid(at, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"))
			}
		case item.ResourceFieldRef != nil:
			errs = append(errs,
				required(at.Child("resourceFieldRef", "containerName"), item.ResourceFieldRef.ContainerName)...)
			errs = append(errs, validateResourceFieldRef(item.ResourceFieldRef, at.Child("resourceFieldRef"))...)
		default:
			errs = append(errs, field.Required(at, "one of fieldRef and resourceFieldRef is required"))
		}
		errs = append(errs, validateMode(item.Mode, at.Child("mode"))...)
		errs = append(errs, validateFileOwner(item.User, at.Child("user"))...)
	}
	return errs
}

func validateProjected(p *corev1.ProjectedVolumeSource, at *field.Path) field.ErrorList {
	errs := validateMode(p.DefaultMode, at.Child("defaultMode"))
	errs = append(errs, validateFileOwner(p.DefaultUser, at.Child("defaultUser"))...)
	errs = append(errs, distinctFiles(p, at)...)
	for i := range p.Sources {
		s, at := &p.Sources[i], at.Child("sources").Index(i)
		set := 0
		if s.Secret != nil {
			set++
			errs = append(errs, required(at.Child("secret", "name"), s.Secret.Name)...)
			errs = append(errs, validateFiles(nil, nil, s.Secret.Items, at.Child("secret"))...)
		}
		if s.ConfigMap != nil {
			set++
			errs = append(errs, required(at.Child("configMap", "name"), s.ConfigMap.Name)...)
			errs = append(errs, validateFiles(nil, nil, s.ConfigMap.Items, at.Child("configMap"))...)
		}
		if s.DownwardAPI != nil {
			set++
			errs = append(errs, validateDownwardFiles(s.DownwardAPI.Items, at.Child("downwardAPI"))...)
		}
		if t := s.ServiceAccountToken; t != nil {
			set++
			errs = append(errs, validateFilePath(t.Path, at.Child("serviceAccountToken", "path"))...)
			errs = append(errs,
				validateTokenLife(t.ExpirationSeconds, at.Child("serviceAccountToken", "expirationSeconds"))...)
			// Clusters leave "serviceAccountToken" out of this path.
			errs = append(errs, validateFileOwner(t.User, at.Child("user"))...)
		}
		if s.ClusterTrustBundle != nil || s.PodCertificate != nil {
			set++
		}
		switch {
		case set == 0:
			errs = append(errs, field.Required(at, "must specify a source"))
		case set > 1:
			errs = append(errs, field.Forbidden(at, "may not specify more than 1 volume type per source"))
		}
	}
	return errs
}

// distinctFiles refuses a path that several files of a volume share. Tokens do not count, as in a cluster.
func distinctFiles(p *corev1.ProjectedVolumeSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	taken := map[string]bool{}
	take := func(file, named string) {
		if file != "" && taken[file] {
			errs = append(errs, field.Invalid(at, named, "conflicting duplicate paths"))
		}
		taken[file] = true
	}
	for _, s := range p.Sources {
		if s.Secret != nil {
			for _, item := range s.Secret.Items {
				take(item.Path, s.Secret.Name)
			}
		}
		if s.ConfigMap != nil {
			for _, item := range s.ConfigMap.Items {
				take(item.Path, s.ConfigMap.Name)
			}
		}
		if s.DownwardAPI != nil {
			for _, item := range s.DownwardAPI.Items {
				take(item.Path, item.Path)
			}
		}
	}
	return errs
}

// validateTokenLife checks the life of a token in seconds (ServiceAccountTokenProjection.ExpirationSeconds).
func validateTokenLife(seconds *int64, at *field.Path) field.ErrorList {
	switch {
	case seconds == nil:
		return nil
	case *seconds < 10*60:
		return field.ErrorList{field.Invalid(at, *seconds, "may not specify a duration less than 10 minutes")}
	case *seconds > 1<<32:
		return field.ErrorList{field.Invalid(at, *seconds, "may not specify a duration larger than 2^32 seconds")}
	}
	return nil
}

// validateFileOwner checks who is to own the files of a volume (KEP-5936).
func validateFileOwner(uid *int64, at *field.Path) field.ErrorList {
	if uid == nil {
		return nil
	}
	return invalid(at, *uid, utilvalidation.IsValidUserID(*uid))
}

func validateMode(mode *int32, at *field.Path) field.ErrorList {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		return field.ErrorList{field.Invalid(at, *mode, "must be a number between 0 and 0777 (octal), both inclusive")}
	}
	return nil
}

// validateFilePath checks the path of a file inside a volume. Names that start with two dots are reserved for the
// volume itself.
func validateFilePath(file string, at *field.Path) field.ErrorList {
	if file == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := validateInside(file, at)
	if len(errs) == 0 && strings.HasPrefix(file, "..") {
		errs = append(errs, field.Invalid(at, file, "must not start with '..'"))
	}
	return errs
}

// validateInside refuses a path that leads out of its directory.
func validateInside(p string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if path.IsAbs(p) {
		errs = append(errs, field.Invalid(at, p, "must be a relative path"))
	}
	return append(errs, noBacksteps(at, p)...)
}

func noBacksteps(at *field.Path, p string) field.ErrorList {
	if slices.Contains(strings.Split(p, "/"), "..") {
		return field.ErrorList{field.Invalid(at, p, "must not contain '..'")}
	}
	return nil
}

func (p *podContext) volumeMounts(c *corev1.Container, list *field.Path) field.ErrorList {
	var errs field.ErrorList
	taken := map[string]bool{}
	for i := range c.VolumeMounts {
		m, at := &c.VolumeMounts[i], list.Index(i)
		errs = append(errs, required(at.Child("name"), m.Name)...)
		if _, ok := p.volumes[m.Name]; !ok {
			errs = append(errs, field.NotFound(at.Child("name"), m.Name))
		}
		errs = append(errs, required(at.Child("mountPath"), m.MountPath)...)
		if taken[m.MountPath] {
			errs = append(errs, field.Invalid(at.Child("mountPath"), m.MountPath, "must be unique"))
		}
		taken[m.MountPath] = true
		if m.SubPath != "" {
			errs = append(errs, validateInside(m.SubPath, at.Child("subPath"))...)
		}
		if m.SubPathExpr != "" {
			if m.SubPath != "" {
				errs = append(errs, field.Invalid(at.Child("subPathExpr"), m.SubPathExpr,
					"subPathExpr and subPath are mutually exclusive"))
			}
			errs = append(errs, validateInside(m.SubPathExpr, at.Child("subPathExpr"))...)
		}
		if m.MountPropagation != nil {
			errs = append(errs, validateMountPropagation(*m.MountPropagation, c, at.Child("mountPropagation"))...)
		}
		if m.RecursiveReadOnly != nil {
			errs = append(errs, validateRecursiveReadOnly(m, list.Child("recursiveReadOnly"))...)
		}
		errs = append(errs, validateBindMountOptions(m.BindMountOptions, at.Child("bindMountOptions"))...)
		if v, ok := p.volumes[m.Name]; ok && v.Image != nil && len(m.BindMountOptions) > 0 {
			errs = append(errs, field.Invalid(at.Child("bindMountOptions"), m.BindMountOptions,
				"bindMountOptions may not be used with image volumes"))
		}
	}
	return errs
}

func validateBindMountOptions(options []string, list *field.Path) field.ErrorList {
	var errs field.ErrorList
	known := []string{string(corev1.BindMountOptionNoDev), string(corev1.BindMountOptionNoExec), string(corev1.BindMountOptionNoSUID)}
	for i, option := range options {
		errs = append(errs, oneOf(list.Index(i), option, known)...)
		if slices.Contains(options[:i], option) {
			errs = append(errs, field.Duplicate(list.Index(i), option))
		}
	}
	return errs
}

// volumeDevices checks the block devices of a container (Container.VolumeDevices).
func (p *podContext) volumeDevices(c *corev1.Container, list *field.Path) field.ErrorList {
	var errs field.ErrorList
	names, paths := map[string]bool{}, map[string]bool{}
	for i := range c.VolumeDevices {
		d, at := &c.VolumeDevices[i], list.Index(i)
		errs = append(errs, required(at.Child("name"), d.Name)...)
		if names[d.Name] {
			errs = append(errs, field.Invalid(at.Child("name"), d.Name, "must be unique"))
		}
		if v, ok := p.volumes[d.Name]; !ok {
			errs = append(errs, field.NotFound(at.Child("name"), d.Name))
		} else if v.PersistentVolumeClaim == nil && v.Ephemeral == nil {
			errs = append(errs, field.Invalid(at.Child("name"), d.Name,
				"can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"))
		}
		names[d.Name] = true
		errs = append(errs, required(at.Child("devicePath"), d.DevicePath)...)
		if paths[d.DevicePath] {
			errs = append(errs, field.Invalid(at.Child("devicePath"), d.DevicePath, "must be unique"))
		}
		if slices.Contains(strings.Split(d.DevicePath, "/"), "..") {
			errs = append(errs, field.Invalid(at.Child("devicePath"), d.DevicePath, "can not contain backsteps ('..')"))
		}
		paths[d.DevicePath] = true
		for _, m := range c.VolumeMounts {
			if m.Name == d.Name {
				errs = append(errs, field.Invalid(at.Child("name"), d.Name, "must not already exist in volumeMounts"))
				break
			}
		}
		for _, m := range c.VolumeMounts {
			if m.MountPath == d.DevicePath {
				errs = append(errs, field.Invalid(at.Child("devicePath"), d.DevicePath,
					"must not already exist as a path in volumeMounts"))
				break
			}
		}
	}
	return errs
}

func validateMountPropagation(mode corev1.MountPropagationMode, c *corev1.Container, at *field.Path) field.ErrorList {
	privileged := c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	if mode == corev1.MountPropagationBidirectional && !privileged {
		return field.ErrorList{field.Forbidden(at,
			"Bidirectional mount propagation is available only to privileged containers")}
	}
	return oneOf(at, mode, []corev1.MountPropagationMode{
		corev1.MountPropagationBidirectional, corev1.MountPropagationHostToContainer, corev1.MountPropagationNone,
	})
}

func validateRecursiveReadOnly(m *corev1.VolumeMount, at *field.Path) field.ErrorList {
	mode := *m.RecursiveReadOnly
	switch mode {
	case corev1.RecursiveReadOnlyDisabled:
		return nil
	case corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible:
		if !m.ReadOnly {
			return field.ErrorList{field.Forbidden(at, "may only be specified when readOnly is true")}
		}
		if m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone {
			return field.ErrorList{field.Forbidden(at,
				"may only be specified when mountPropagation is None or not specified")}
		}
		return nil
	}
	return field.ErrorList{field.NotSupported(at, mode, []corev1.RecursiveReadOnlyMode{
		corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible,
	})}
}
