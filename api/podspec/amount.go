package podspec

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Amount returns a quantity in its own unit, rounded up. What no int64 can hold, as sums of what a pod asks for may be,
// becomes the largest that can, or the smallest; Quantity.Value returns any number for it.
func Amount(q resource.Quantity) int64 {
	switch {
	case q.CmpInt64(math.MaxInt64) >= 0:
		return math.MaxInt64
	case q.CmpInt64(math.MinInt64) <= 0:
		return math.MinInt64
	}
	return q.Value()
}

// MilliAmount returns a quantity in thousandths, as Amount does.
func MilliAmount(q resource.Quantity) int64 {
	switch {
	case q.CmpInt64(math.MaxInt64/1000) > 0:
		return math.MaxInt64
	case q.CmpInt64(math.MinInt64/1000) < 0:
		return math.MinInt64
	}
	return q.MilliValue()
}

// Add returns the sum of two amounts, or the largest or smallest that there is.
func Add(a, b int64) int64 {
	switch {
	case b > 0 && a > math.MaxInt64-b:
		return math.MaxInt64
	case b < 0 && a < math.MinInt64-b:
		return math.MinInt64
	}
	return a + b
}
