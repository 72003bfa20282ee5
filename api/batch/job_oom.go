package batch

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/internal/quantity"
)

const (
	// OOMMemoryFactorAnnotation of a Job gives the next pod more memory after one was killed for want of it: by how much
	// the limits and requests of the containers that were killed are multiplied each time, such as "1.5". Of an Indexed
	// Job that is the next pod of the same index; of any other it is every later pod, since each may take any work.
	OOMMemoryFactorAnnotation = "jobd.dev/oom-memory-factor"
	// OOMMemoryMaxAnnotation is the limit up to which a container's memory grows in this way, such as "8Gi".
	OOMMemoryMaxAnnotation = "jobd.dev/oom-memory-max"
	// OOMKillsAnnotation of a pod is after how many such kills its memory was chosen.
	OOMKillsAnnotation = "jobd.dev/oom-kills"

	// maxOOMKills is the most kills that are counted.
	maxOOMKills = 1000
)

// OOMMemory is how the memory of a Job's pods grows.
type OOMMemory struct {
	Factor *big.Rat
	Max    resource.Quantity
}

// JobOOMMemory returns how the memory of a Job's pods grows; nil if the Job does not ask for it, or for nothing that is
// valid.
func JobOOMMemory(annotations map[string]string) *OOMMemory {
	if annotations[OOMMemoryFactorAnnotation] == "" {
		return nil
	}
	factor, err := oomFactor(annotations[OOMMemoryFactorAnnotation])
	if err != nil {
		return nil
	}
	limit, err := oomMax(annotations[OOMMemoryMaxAnnotation])
	if err != nil {
		return nil
	}
	return &OOMMemory{factor, limit}
}

// maxFactor is how many characters a factor may have: it is read for each pod, and an exact one takes time by its length.
const maxFactor = 16

func oomFactor(text string) (*big.Rat, error) {
	if len(text) > maxFactor {
		return nil, fmt.Errorf("must have at most %d characters", maxFactor)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f > 1 && f <= 10) {
		return nil, errors.New(`must be a number above 1 and at most 10, such as "1.5"`)
	}
	factor, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, errors.New(`must be a decimal number, such as "1.5"`)
	}
	return factor, nil
}

func oomMax(text string) (resource.Quantity, error) {
	q, err := quantity.Parse(text)
	if err != nil || q.Sign() <= 0 {
		return q, errors.New(`must be a quantity of memory above 0, such as "8Gi"`)
	}
	return q, nil
}

// validateOOMMemory checks the annotations of a Job, or of the Jobs of a CronJob.
func validateOOMMemory(annotations map[string]string, spec *batchv1.JobSpec, path *field.Path) (errs field.ErrorList) {
	factor, hasFactor := annotations[OOMMemoryFactorAnnotation]
	limit, hasMax := annotations[OOMMemoryMaxAnnotation]
	at, atMax := path.Key(OOMMemoryFactorAnnotation), path.Key(OOMMemoryMaxAnnotation)
	if hasFactor {
		if _, err := oomFactor(factor); err != nil {
			errs = append(errs, field.Invalid(at, factor, err.Error()))
		}
		if spec.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
			errs = append(errs, field.Invalid(at, factor,
				"needs restartPolicy Never in the pod's template: a container that is started again in its pod keeps its memory"))
		}
	}
	if hasMax {
		if _, err := oomMax(limit); err != nil {
			errs = append(errs, field.Invalid(atMax, limit, err.Error()))
		}
	}
	switch {
	case hasFactor && !hasMax:
		errs = append(errs, field.Required(atMax, "says how far memory may grow by "+OOMMemoryFactorAnnotation))
	case hasMax && !hasFactor:
		errs = append(errs, field.Required(at, OOMMemoryMaxAnnotation+" has no effect without it"))
	}
	return errs
}

// oomWarnings warns of a Job whose memory cannot grow.
func oomWarnings(annotations map[string]string, spec *batchv1.JobSpec, path *field.Path) []string {
	if annotations[OOMMemoryFactorAnnotation] == "" {
		return nil
	}
	template := &spec.Template.Spec
	for _, list := range [][]corev1.Container{template.InitContainers, template.Containers} {
		for i := range list {
			_, limited := list[i].Resources.Limits[corev1.ResourceMemory]
			_, requested := list[i].Resources.Requests[corev1.ResourceMemory]
			if limited || requested {
				return nil
			}
		}
	}
	return []string{path.Key(OOMMemoryFactorAnnotation).String() + ": has no effect, since no container has a limit or a request of memory that could grow"}
}

// Grow multiplies the memory of containers of a new pod as often as there were kills: the limit up to Max, and the request
// in proportion. A limit of memory for the whole pod (PodSpec.Resources) grows with them. What is above Max stays as it is.
func (o *OOMMemory) Grow(spec *corev1.PodSpec, containers []string, kills int) {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if slices.Contains(containers, list[i].Name) {
				o.grow(&list[i].Resources, kills)
			}
		}
	}
	if spec.Resources != nil {
		o.grow(spec.Resources, kills)
	}
}

func (o *OOMMemory) grow(r *corev1.ResourceRequirements, kills int) {
	limit, limited := r.Limits[corev1.ResourceMemory]
	request, requested := r.Requests[corev1.ResourceMemory]
	was := limit
	if !limited {
		was = request
	}
	if was.Sign() <= 0 || was.Cmp(o.Max) >= 0 {
		return
	}
	next := o.times(was, kills)
	factor := new(big.Rat).SetFrac64(next.Value(), was.Value())
	if limited {
		quantity.Set(&r.Limits, corev1.ResourceMemory, next)
	}
	switch {
	case requested && limited:
		quantity.Set(&r.Requests, corev1.ResourceMemory, quantity.Scale(request, factor, corev1.ResourceMemory))
	case requested:
		quantity.Set(&r.Requests, corev1.ResourceMemory, next)
	}
}

// times returns an amount of memory after a number of kills.
func (o *OOMMemory) times(q resource.Quantity, kills int) resource.Quantity {
	for range min(kills, maxOOMKills) {
		if q = quantity.Scale(q, o.Factor, corev1.ResourceMemory); q.Cmp(o.Max) >= 0 {
			return o.Max.DeepCopy()
		}
	}
	return q
}
