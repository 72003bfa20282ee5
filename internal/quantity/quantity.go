// Package quantity reads amounts of resources such as 500m or 4Gi from texts of others, and multiplies them. The library's parser takes a text such as
// 1e-2000000000 and computes with as many digits, for hours, and cannot be stopped. So nothing else in jobd calls it.
package quantity

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
)

const (
	// MaxLength is how many characters a quantity may have. The largest one that means something has 19 digits before its
	// point and 9 behind it, but some programs write all digits of the largest number that they have, which is 10^308.
	MaxLength = 400
	// maxExponent is the largest exponent, up and down. What is below 10^-9 is rounded up to it. So large a quantity is computed
	// in microseconds, the worst is written in 32; ten times the exponent takes seventy times as long.
	maxExponent = 400
)

// Parse is resource.ParseQuantity for texts of any origin.
func Parse(text string) (resource.Quantity, error) {
	if err := Check(text); err != nil {
		return resource.Quantity{}, err
	}
	return resource.ParseQuantity(text)
}

// Check returns why a text is too long or too large to be parsed as a quantity. It does not say that it is one.
func Check[T string | []byte](text T) error {
	if len(text) > MaxLength {
		return fmt.Errorf("a quantity must have at most %d characters", MaxLength)
	}
	for i := range len(text) {
		if largeExponent(text[i:]) {
			return fmt.Errorf("the exponent of a quantity must be from -%d to %[1]d", maxExponent)
		}
	}
	return nil
}

// Suspect reports whether there is anything in the body of a request that Check would refuse, wherever it stands: there too where
// any text may stand. That takes a nanosecond for each byte, and what is not suspect needs no further look.
func Suspect(body []byte) bool {
	digits := 0
	for i, c := range body {
		switch {
		case '0' <= c && c <= '9' || c == '.':
			if digits++; digits > MaxLength {
				return true
			}
			continue
		case c == 'e' || c == 'E':
			if (i == 0 || !letter(body[i-1])) && largeExponent(body[i:]) {
				return true
			}
		case c == '\\':
			if i+1 < len(body) && body[i+1] == 'u' { // any character
				return true
			}
		}
		digits = 0
	}
	return false
}

func letter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// largeExponent reports whether a text begins with an exponent that is too large.
func largeExponent[T string | []byte](text T) bool {
	if len(text) < len("e401") || text[0]|0x20 != 'e' {
		return false
	}
	i := 1
	if text[i] == '-' || text[i] == '+' {
		i++
	}
	n := 0
	for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
		if n = n*10 + int(text[i]-'0'); n > maxExponent {
			return true
		}
	}
	return false
}
