package quantity

import (
	"errors"
	"math/big"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Factor returns the number before the x of a factor.
func Factor(text string) (*big.Rat, error) {
	f, err := strconv.ParseFloat(text, 64)
	factor := new(big.Rat)
	switch {
	case err != nil || factor.SetFloat64(f) == nil:
		return nil, errors.New(`must be a factor such as "2x", or a value`)
	case f <= 0 || f > 1000:
		return nil, errors.New("the factor must be above 0 and at most 1000")
	}
	return factor, nil
}

// Set sets a resource in a list that others may have too.
func Set(list *corev1.ResourceList, name corev1.ResourceName, q resource.Quantity) {
	next := corev1.ResourceList{}
	for n, v := range *list {
		next[n] = v
	}
	next[name] = q
	*list = next
}

// Scale multiplies a quantity: CPU is rounded up to thousandths, anything else to whole units.
func Scale(q resource.Quantity, factor *big.Rat, name corev1.ResourceName) resource.Quantity {
	unit := resource.Scale(0)
	if name == corev1.ResourceCPU {
		unit = resource.Milli
	}
	product := new(big.Rat).Mul(new(big.Rat).SetInt64(q.ScaledValue(unit)), factor)
	n, rest := new(big.Int).QuoRem(product.Num(), product.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		n.Add(n, big.NewInt(1))
	}
	value := int64(1<<63 - 1)
	if n.IsInt64() {
		value = n.Int64()
	}
	out := resource.NewScaledQuantity(value, unit)
	out.Format = q.Format
	return *out
}
