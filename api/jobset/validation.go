package jobset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/notices"
)

const (
	// MaxJobs is how many Jobs a JobSet may have. A cluster has no bound, and would create them until it has no memory left.
	MaxJobs = 10_000

	// maxGroups bounds what each decision looks at, and what is written with each change of the status.
	maxGroups = 200

	maxDependsOn       = 5
	maxClaimPolicies   = 50
	maxManagedByLength = 63
	maxClaimName       = 63
	maxRuleName        = 128
	// maxRules and maxTargets bound what is compared with each Job that has failed. See maxProgram for patterns.
	maxRules   = 100
	maxTargets = 1000
)

// tooLong is what validation says of labels that are too long. The messages of JobSet's webhook replace it.
const tooLong = "must be no more than 63 characters"

// failureReasons are those for which Jobs fail.
var failureReasons = []string{
	batchv1.JobReasonBackoffLimitExceeded, batchv1.JobReasonDeadlineExceeded, batchv1.JobReasonFailedIndexes,
	batchv1.JobReasonMaxFailedIndexesExceeded, batchv1.JobReasonPodFailurePolicy,
}

// validate checks a new JobSet. What it says is what a cluster's webhook says; where that names no field, neither does it.
func validate(js *jobsetv1.JobSet) field.ErrorList {
	spec := field.NewPath("spec")
	errs := apivalidation.ValidateObjectMeta(&js.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validateAnnotations(js, nil)...)
	errs = append(errs, validateShape(js, spec)...)
	errs = append(errs, validateGroups(js, spec)...)
	errs = append(errs, validateNetwork(js, spec.Child("network", "subdomain"))...)
	errs = append(errs, validateManagedBy(js, spec.Child("managedBy"))...)
	errs = append(errs, validatePolicies(js, spec)...)
	errs = append(errs, validateCoordinator(js)...)
	errs = append(errs, validateClaims(js, spec.Child("volumeClaimPolicies"))...)
	if len(errs) == 0 { // of a JobSet with another fault, its Jobs are none that could be made
		errs = validateJobs(js, nil)
	}
	return errs
}

// validateAnnotations checks those of jobd's own. old are those of the JobSet so far.
func validateAnnotations(js *jobsetv1.JobSet, old map[string]string) field.ErrorList {
	path := field.NewPath("metadata", "annotations")
	errs := append(notices.Validate(js.Annotations, path), batch.ValidatePaused(js.Annotations, old, path)...)
	errs = append(errs, validateGang(js, old, path)...)
	return append(errs, validateAfter(js, old, path)...)
}

// says is an error that names no field.
func says(format string, args ...any) *field.Error {
	return field.InternalError(nil, fmt.Errorf(format, args...))
}

// validateShape checks what the schema of a cluster's definition says, and how much there may be.
func validateShape(js *jobsetv1.JobSet, path *field.Path) (errs field.ErrorList) {
	names := sets.New[string]()
	groups := path.Child("replicatedJobs")
	if len(js.Spec.ReplicatedJobs) > maxGroups {
		return field.ErrorList{field.TooMany(groups, len(js.Spec.ReplicatedJobs), maxGroups)}
	}
	inOrder, depend := InOrder(js), false
	for i := range js.Spec.ReplicatedJobs {
		group, at := &js.Spec.ReplicatedJobs[i], groups.Index(i)
		if names.Has(group.Name) {
			errs = append(errs, field.Duplicate(at, map[string]string{"name": group.Name}))
		}
		names.Insert(group.Name)
		if group.Replicas < 0 {
			errs = append(errs, field.Invalid(at.Child("replicas"), group.Replicas, "should be greater than or equal to 0"))
		}
		depend = depend || group.DependsOn != nil
		if len(group.DependsOn) > maxDependsOn {
			errs = append(errs, field.TooMany(at.Child("dependsOn"), len(group.DependsOn), maxDependsOn))
		}
		dependencies := sets.New[string]()
		for k, d := range group.DependsOn {
			errs = append(errs, oneOf(at.Child("dependsOn").Index(k).Child("status"), d.Status,
				[]jobsetv1.DependsOnStatus{jobsetv1.DependencyReady, jobsetv1.DependencyComplete})...)
			if dependencies.Has(d.Name) {
				errs = append(errs, field.Duplicate(at.Child("dependsOn").Index(k), map[string]string{"name": d.Name}))
			}
			dependencies.Insert(d.Name)
		}
	}
	if n := Jobs(js); n > MaxJobs {
		errs = append(errs, field.Invalid(groups, n, fmt.Sprintf("the groups may have no more than %d Jobs in all", MaxJobs)))
	}
	if inOrder && depend {
		errs = append(errs, field.Invalid(path, "object", "StartupPolicy and DependsOn APIs are mutually exclusive"))
	}
	errs = append(errs, oneOf(path.Child("startupPolicy", "startupPolicyOrder"), js.Spec.StartupPolicy.StartupPolicyOrder,
		[]jobsetv1.StartupPolicyOptions{jobsetv1.AnyOrder, jobsetv1.InOrder})...)
	errs = append(errs, oneOf(path.Child("successPolicy", "operator"), js.Spec.SuccessPolicy.Operator,
		[]jobsetv1.Operator{jobsetv1.OperatorAll, jobsetv1.OperatorAny})...)
	if n := len(js.Spec.SuccessPolicy.TargetReplicatedJobs); n > maxTargets {
		errs = append(errs, field.TooMany(path.Child("successPolicy", "targetReplicatedJobs"), n, maxTargets))
	}
	return append(errs, validateTTL(js, path)...)
}

func validateTTL(js *jobsetv1.JobSet, path *field.Path) field.ErrorList {
	ttl := js.Spec.TTLSecondsAfterFinished
	if ttl == nil || *ttl >= 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("ttlSecondsAfterFinished"), *ttl, "should be greater than or equal to 0")}
}

func oneOf[T ~string](path *field.Path, value T, all []T) field.ErrorList {
	if slices.Contains(all, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, all)}
}

func validateGroups(js *jobsetv1.JobSet, spec *field.Path) (errs field.ErrorList) {
	if len(js.Spec.ReplicatedJobs) > 0 && js.Spec.ReplicatedJobs[0].DependsOn != nil {
		errs = append(errs, says("DependsOn can't be set for the first ReplicatedJob"))
	}
	before := sets.New[string]()
	for i := range js.Spec.ReplicatedJobs {
		group, path := &js.Spec.ReplicatedJobs[i], spec.Child("replicatedJobs").Index(i)
		if int64(ptr.Deref(group.Template.Spec.Parallelism, 1))*int64(group.Replicas) > math.MaxInt32 {
			errs = append(errs, says("the product of replicas and parallelism must not exceed %d for replicatedJob '%s'",
				math.MaxInt32, group.Name))
		}
		errs = append(errs, label(path.Child("groupName"), group.GroupName, group.GroupName,
			".spec.replicatedJob[].groupName is too long, must be less than 63 characters")...)
		last := max(0, int(group.Replicas)-1)
		longest := JobName(js.Name, group.Name, last)
		errs = append(errs, label(path.Child("name"), longest, longest,
			"JobSet name is too long, job names generated for this JobSet will exceed 63 characters")...)
		if completions, ok := indexes(group); ok {
			pod := longest + "-" + strconv.Itoa(int(completions-1)) + "-abcde"
			errs = append(errs, label(path.Child("name"), pod, longest,
				"JobSet name is too long, pod names generated for this JobSet will exceed 63 characters")...)
		}
		for _, d := range group.DependsOn {
			if !before.Has(d.Name) {
				errs = append(errs, says("replicatedJob: %s cannot depend on replicatedJob: %s", group.Name, d.Name))
			}
		}
		before.Insert(group.Name)
	}
	return errs
}

// indexes returns how many indexes the Jobs of a group have, false if that is not said.
func indexes(group *jobsetv1.ReplicatedJob) (int32, bool) {
	spec := &group.Template.Spec
	indexed := ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) == batchv1.IndexedCompletion
	return ptr.Deref(spec.Completions, 0), indexed && spec.Completions != nil
}

// label checks a name that is part of host names, and says of one that is too long what it is.
func label(path *field.Path, name, shown, long string) (errs field.ErrorList) {
	for _, message := range validation.IsDNS1035Label(name) {
		if strings.Contains(message, tooLong) {
			message = long
		}
		errs = append(errs, field.Invalid(path, shown, message))
	}
	return errs
}

func validateNetwork(js *jobsetv1.JobSet, path *field.Path) (errs field.ErrorList) {
	if js.Spec.Network == nil || js.Spec.Network.Subdomain == "" {
		return nil
	}
	subdomain := js.Spec.Network.Subdomain
	for _, message := range validation.IsDNS1123Subdomain(subdomain) {
		errs = append(errs, field.Invalid(path, subdomain, message))
	}
	return append(errs, label(path, subdomain, subdomain, ".spec.network.subdomain is too long, must be less than 63 characters")...)
}

func validateManagedBy(js *jobsetv1.JobSet, path *field.Path) field.ErrorList {
	if js.Spec.ManagedBy == nil {
		return nil
	}
	errs := validation.IsDomainPrefixedPath(path, *js.Spec.ManagedBy)
	if len(*js.Spec.ManagedBy) > maxManagedByLength {
		errs = append(errs, field.TooLong(path, *js.Spec.ManagedBy, maxManagedByLength))
	}
	return errs
}

// gated says that something stands behind a gate of JobSet which is closed by default, as it is here for good.
const gated = " when %s feature gate is disabled"

func validatePolicies(js *jobsetv1.JobSet, spec *field.Path) (errs field.ErrorList) {
	groups := sets.New[string]()
	for i := range js.Spec.ReplicatedJobs {
		groups.Insert(js.Spec.ReplicatedJobs[i].Name)
	}
	for _, name := range js.Spec.SuccessPolicy.TargetReplicatedJobs {
		if !groups.Has(name) {
			errs = append(errs, says("invalid replicatedJob name '%s' does not appear in .spec.ReplicatedJobs", name))
		}
	}
	policy := js.Spec.FailurePolicy
	if policy == nil {
		return errs
	}
	path := spec.Child("failurePolicy")
	if policy.RestartStrategy == jobsetv1.InPlaceRestart {
		errs = append(errs, says("InPlaceRestart restart strategy cannot be set"+gated, "InPlaceRestart"))
	} else {
		errs = append(errs, oneOf(path.Child("restartStrategy"), policy.RestartStrategy,
			[]jobsetv1.JobSetRestartStrategy{jobsetv1.Recreate, jobsetv1.BlockingRecreate})...)
	}
	if len(policy.Rules) > maxRules {
		return append(errs, field.TooMany(path.Child("rules"), len(policy.Rules), maxRules))
	}
	return append(errs, validateRules(policy, groups, path.Child("rules"))...)
}

// ruleName is what the name of a rule has to be.
var ruleName = regexp.MustCompile(`^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`)

func validateRules(policy *jobsetv1.FailurePolicy, groups sets.Set[string], path *field.Path) (errs field.ErrorList) {
	for i := range policy.Rules {
		switch policy.Rules[i].Action {
		case jobsetv1.RestartJob, jobsetv1.RestartJobAndIgnoreMaxRestarts:
			return append(errs, says("RestartJob and RestartJobAndIgnoreMaxRestarts failure policy actions are not allowed"+gated, "RestartJob"))
		}
	}
	named, program := map[string][]int{}, 0
	for i := range policy.Rules {
		rule, at := &policy.Rules[i], path.Index(i)
		errs = append(errs, oneOf(at.Child("action"), rule.Action, []jobsetv1.FailurePolicyAction{
			jobsetv1.FailJobSet, jobsetv1.RestartJobSet, jobsetv1.RestartJobSetAndIgnoreMaxRestarts,
		})...)
		if n := len(rule.Name); n < 1 || n > maxRuleName {
			errs = append(errs, says("invalid failure policy rule name of length %v, the rule name must be at least %v characters long "+
				"and at most %v characters long", n, 1, maxRuleName))
		}
		named[rule.Name] = append(named[rule.Name], i)
		if !ruleName.MatchString(rule.Name) {
			errs = append(errs, says("invalid failure policy rule name '%v', a failure policy rule name must start with an alphabetic character, "+
				"optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'", rule.Name))
		}
		if len(rule.TargetReplicatedJobs) > maxTargets {
			errs = append(errs, field.TooMany(at.Child("targetReplicatedJobs"), len(rule.TargetReplicatedJobs), maxTargets))
		}
		for _, name := range rule.TargetReplicatedJobs {
			if !groups.Has(name) {
				errs = append(errs, says("invalid replicatedJob name '%s' in failure policy does not appear in .spec.ReplicatedJobs", name))
			}
		}
		errs = append(errs, unique(rule.OnJobFailureReasons, at.Child("onJobFailureReasons"))...)
		for _, reason := range rule.OnJobFailureReasons {
			if !slices.Contains(failureReasons, reason) {
				errs = append(errs, says("invalid job failure reason '%s' in failure policy is not a recognized job failure reason", reason))
			}
		}
		errs = append(errs, unique(rule.OnJobFailureMessagePatterns, at.Child("onJobFailureMessagePatterns"))...)
		for _, pattern := range rule.OnJobFailureMessagePatterns {
			program += programOf(pattern)
		}
	}
	if program > maxProgram {
		errs = append(errs, field.Invalid(path, "onJobFailureMessagePatterns", fmt.Sprintf(
			"the patterns of all rules would take %d steps for each character of a message, and may take %d", program, maxProgram)))
	}
	for i := range policy.Rules { // in their order
		if same := named[policy.Rules[i].Name]; len(same) > 1 && same[0] == i {
			errs = append(errs, says("rule names are not unique, rules with indices %v all have the same name '%v'", same, policy.Rules[i].Name))
		}
	}
	return errs
}

func unique(values []string, path *field.Path) (errs field.ErrorList) {
	seen := sets.New[string]()
	for i, value := range values {
		if seen.Has(value) {
			errs = append(errs, field.Duplicate(path.Index(i), value))
		}
		seen.Insert(value)
	}
	return errs
}

func validateCoordinator(js *jobsetv1.JobSet) (errs field.ErrorList) {
	c := js.Spec.Coordinator
	if c == nil {
		return nil
	}
	if err := checkCoordinator(js, c); err != nil {
		errs = append(errs, field.InternalError(nil, err))
	}
	if value := Coordinator(js); len(validation.IsValidLabelValue(value)) > 0 {
		errs = append(errs, says("spec will lead to invalid label value %q for coordinator label %q (long JobSet / ReplicatedJob / SubDomain name?): %s",
			value, jobsetv1.CoordinatorKey, strings.Join(validation.IsValidLabelValue(value), ", ")))
	}
	return errs
}

func checkCoordinator(js *jobsetv1.JobSet, c *jobsetv1.Coordinator) error {
	group := Find(js, c.ReplicatedJob)
	if group == nil {
		return fmt.Errorf("coordinator replicatedJob %s does not exist", c.ReplicatedJob)
	}
	if c.JobIndex < 0 || c.JobIndex >= int(group.Replicas) {
		return fmt.Errorf("coordinator job index %d is invalid for replicatedJob %s", c.JobIndex, group.Name)
	}
	completions, ok := indexes(group)
	if !ok {
		return errors.New("job for coordinator pod must be indexed completion mode, and completions number must be set")
	}
	if c.PodIndex < 0 || c.PodIndex >= int(completions) {
		return fmt.Errorf("coordinator pod index %d is invalid for replicatedJob %s job index %d", c.PodIndex, c.ReplicatedJob, c.JobIndex)
	}
	return nil
}

// validateClaims checks the claims of a JobSet. Those that are there already are looked at when they are needed.
func validateClaims(js *jobsetv1.JobSet, path *field.Path) (errs field.ErrorList) {
	if n := len(js.Spec.VolumeClaimPolicies); n > maxClaimPolicies {
		return field.ErrorList{field.TooMany(path, n, maxClaimPolicies)}
	}
	names := sets.New[string]()
	for i := range js.Spec.VolumeClaimPolicies {
		policy := &js.Spec.VolumeClaimPolicies[i]
		if len(policy.Templates) > maxClaimPolicies {
			errs = append(errs, field.TooMany(path.Index(i).Child("templates"), len(policy.Templates), maxClaimPolicies))
			continue
		}
		errs = append(errs, oneOf(path.Index(i).Child("retentionPolicy", "whenDeleted"), *policy.RetentionPolicy.WhenDeleted,
			[]jobsetv1.RetentionPolicyType{jobsetv1.RetentionPolicyDelete, jobsetv1.RetentionPolicyRetain})...)
		for k := range policy.Templates {
			template, at := &policy.Templates[k], path.Index(i).Child("template").Index(k)
			if template.Namespace != "" {
				errs = append(errs, field.Invalid(path.Index(i), "object", "namespace cannot be set for VolumeClaimPolicies templates"))
			}
			if names.Has(template.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), template.Name, "names must be unique for VolumeClaimPolicies template"))
			}
			names.Insert(template.Name)
			for _, message := range validation.IsDNS1123Subdomain(template.Name) {
				errs = append(errs, field.Invalid(at.Child("name"), template.Name, message))
			}
			if len(ClaimName(js.Name, template.Name)) > maxClaimName {
				errs = append(errs, field.Invalid(at.Child("name"), template.Name, "VolumeClaimPolicies template name is too long"))
			}
			errs = append(errs, validateMounts(js, template.Name)...)
			errs = append(errs, validateClaim(NewClaim(js, policy, template), at)...)
		}
	}
	return errs
}

// validateClaim checks a claim as it would be created.
func validateClaim(claim *corev1.PersistentVolumeClaim, path *field.Path) (errs field.ErrorList) {
	claim.OwnerReferences = nil // a new JobSet may have no UID yet
	k := core.PersistentVolumeClaimKind()
	k.Default(claim)
	k.Strategy.PrepareForCreate(context.Background(), claim)
	for _, err := range k.Strategy.Validate(context.Background(), claim) {
		if err.Field != "metadata.name" { // which has been checked
			err.Field = path.String() + "." + err.Field
			errs = append(errs, err)
		}
	}
	return errs
}

// validateMounts checks that some container mounts a claim, and that no volume of its name stands in its way.
func validateMounts(js *jobsetv1.JobSet, claim string) (errs field.ErrorList) {
	groups, mounted := field.NewPath("spec", "replicatedJobs"), false
	for i := range js.Spec.ReplicatedJobs {
		spec := &js.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec
		volumes := groups.Index(i).Child("template", "spec", "template", "spec", "volumes")
		for k := range spec.Volumes {
			if spec.Volumes[k].Name == claim {
				errs = append(errs, field.Invalid(volumes.Index(k).Child("name"), claim,
					"volume name conflicts with VolumeClaimPolicy template name: "+claim))
			}
		}
		mounted = mounted || mounts(spec, claim)
	}
	if !mounted {
		errs = append(errs, field.Invalid(groups, "object", fmt.Sprintf(
			"replicatedJob containers don't have a matching volumeMount: %s from VolumeClaimPolicies", claim)))
	}
	return errs
}

// validateJobs checks the Jobs that would be created, as they are when they are: a cluster takes a JobSet whose Jobs it refuses. Groups
// that are as in old are not checked again.
func validateJobs(js, old *jobsetv1.JobSet) (errs field.ErrorList) {
	for i := range js.Spec.ReplicatedJobs {
		group, path := &js.Spec.ReplicatedJobs[i], field.NewPath("spec", "replicatedJobs").Index(i).Child("template")
		if old != nil && i < len(old.Spec.ReplicatedJobs) && sameTemplate(group, &old.Spec.ReplicatedJobs[i]) {
			continue
		}
		errs = append(errs, core.CheckTemplateSize(&group.Template.Spec.Template, path.Child("spec", "template"))...)
		if manual := group.Template.Spec.ManualSelector; ptr.Deref(manual, false) { // as in a CronJob: its Jobs would have each other's pods
			errs = append(errs, field.NotSupported(path.Child("spec", "manualSelector"), *manual, []string{"nil", "false"}))
		}
		job := NewJob(js, group, max(0, int(group.Replicas)-1))
		if job.Namespace == "" {
			job.Namespace = corev1.NamespaceDefault
		}
		job.UID = "00000000-0000-0000-0000-000000000000"
		job.OwnerReferences = nil // a new JobSet may have no UID yet
		batch.SetJobDefaults(job)
		batch.PrepareJob(job)
		for _, err := range batch.ValidateJob(job) {
			if err.Field != "metadata.name" { // which has been checked as that of a Job of a JobSet
				err.Field = path.String() + "." + err.Field
				errs = append(errs, err)
			}
		}
	}
	return errs
}
