package retry

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/internal/quantity"
)

// retried returns the container of a pod that has a name.
func retried(spec *corev1.PodSpec, name string, path *field.Path) (*corev1.Container, *field.Error) {
	var names []string
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i], nil
			}
			names = append(names, list[i].Name)
		}
	}
	switch {
	case name != "":
		return nil, field.NotSupported(path, name, names)
	case len(spec.Containers) == 1:
		return &spec.Containers[0], nil
	}
	return nil, field.Required(path, "the pod has several containers: "+strings.Join(names, ", "))
}

func change(c *corev1.Container, ask Container, path *field.Path) (changes []string, errs field.ErrorList) {
	for _, r := range []struct {
		name  corev1.ResourceName
		value string
	}{{corev1.ResourceMemory, ask.Memory}, {corev1.ResourceCPU, ask.CPU}} {
		if r.value == "" {
			continue
		}
		before := resourceWords(c, r.name)
		if err := setResource(c, r.name, r.value); err != nil {
			errs = append(errs, field.Invalid(path.Child(string(r.name)), r.value, err.Error()))
		} else if after := resourceWords(c, r.name); after != before {
			changes = append(changes, fmt.Sprintf("%s of container %s: %s instead of %s", r.name, c.Name, after, before))
		}
	}
	if ask.Image != "" && ask.Image != c.Image {
		changes = append(changes, cut(fmt.Sprintf("image of container %s: %s instead of %s", c.Name, ask.Image, c.Image)))
		c.Image = ask.Image
	}
	return changes, errs
}

// resourceWords says how much of a resource a container has.
func resourceWords(c *corev1.Container, name corev1.ResourceName) string {
	limit, limited := c.Resources.Limits[name]
	request, requested := c.Resources.Requests[name]
	switch {
	case limited && requested && limit.Cmp(request) != 0:
		return fmt.Sprintf("%s (request %s)", limit.String(), request.String())
	case limited:
		return limit.String()
	case requested:
		return "request " + request.String()
	}
	return "none"
}

// setResource sets the limit of a resource to a quantity, with the request in proportion, or multiplies both by a factor
// such as "2x".
func setResource(c *corev1.Container, name corev1.ResourceName, value string) error {
	limit, limited := c.Resources.Limits[name]
	request, requested := c.Resources.Requests[name]
	factor := new(big.Rat)
	if text, ok := strings.CutSuffix(value, "x"); ok {
		var err error
		if factor, err = quantity.Factor(text); err != nil {
			return err
		}
		if !limited && !requested {
			return fmt.Errorf("container %s has neither a limit nor a request that could be multiplied: give a quantity", c.Name)
		}
	} else {
		q, err := quantity.Parse(value)
		switch {
		case err != nil:
			return errors.New(`must be a quantity such as "4Gi" or "500m", or a factor such as "2x"`)
		case q.Sign() <= 0:
			return errors.New("must be above 0")
		case !limited && !requested:
			quantity.Set(&c.Resources.Limits, name, q)
			quantity.Set(&c.Resources.Requests, name, q)
			return nil
		}
		was := limit
		if !limited {
			was = request
		}
		if was.IsZero() {
			return fmt.Errorf("container %s has 0 of it, so the other value cannot follow in proportion", c.Name)
		}
		factor.Quo(new(big.Rat).SetInt64(q.ScaledValue(resource.Milli)), new(big.Rat).SetInt64(was.ScaledValue(resource.Milli)))
	}
	if limited {
		quantity.Set(&c.Resources.Limits, name, quantity.Scale(limit, factor, name))
	}
	if requested {
		quantity.Set(&c.Resources.Requests, name, quantity.Scale(request, factor, name))
	}
	return nil
}
