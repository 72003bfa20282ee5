package podspec

import (
	"math"
	"math/big"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
)

// TestAmountsSaturate compares sums with those of numbers that have no bounds.
func TestAmountsSaturate(t *testing.T) {
	clamp := func(n *big.Int) int64 {
		switch {
		case n.IsInt64():
			return n.Int64()
		case n.Sign() > 0:
			return math.MaxInt64
		}
		return math.MinInt64
	}
	numbers := rapid.OneOf(
		rapid.Int64(),
		rapid.SampledFrom([]int64{math.MaxInt64, math.MaxInt64 - 1, math.MinInt64 + 1, math.MaxInt64 / 1000, math.MaxInt64/1000 + 1, 0, -1, 1}),
	)
	rapid.Check(t, func(t *rapid.T) {
		n, sum, exact := rapid.IntRange(1, 5).Draw(t, "n"), resource.Quantity{}, new(big.Int)
		added := int64(0)
		for range n {
			number := numbers.Draw(t, "number")
			sum.Add(*resource.NewQuantity(number, resource.DecimalSI))
			exact.Add(exact, big.NewInt(number))
			added = Add(added, number)
		}
		if got := Amount(sum); got != clamp(exact) {
			t.Errorf("%s is %d", exact, got)
		}
		if got := MilliAmount(sum); got != clamp(new(big.Int).Mul(exact, big.NewInt(1000))) {
			t.Errorf("%s is %d thousandths", exact, got)
		}
		if n <= 2 && added != clamp(exact) {
			t.Errorf("%s is added up to %d", exact, added)
		}
	})
}
