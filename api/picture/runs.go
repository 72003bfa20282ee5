package picture

import (
	"errors"
	"math"
	"strconv"
)

// details are the symbols of Details by their value. None is a digit, or escaped in JSON or in HTML.
const details = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.~!*()@$+,"

// levels and maxRetries bound what a detail says.
const (
	levels     = 16
	maxRetries = 3
)

// Detail returns the symbol of a cell's details: the level of its duration, from 0 (it has not run) to 15, and how often
// it was run again, 3 or more being the same.
func Detail(level, retries int) byte {
	return details[min(max(level, 0), levels-1)+levels*min(max(retries, 0), maxRetries)]
}

// Undetail returns what Detail was made from; zeros for what is no symbol of it.
func Undetail(symbol byte) (level, retries int) {
	for i := range len(details) {
		if details[i] == symbol {
			return i % levels, i / levels
		}
	}
	return 0, 0
}

// Level returns the level of a duration in seconds, on a scale of logarithms that ends with the longest.
func Level(seconds, longest int64) int {
	if longest < 1 {
		longest = 1
	}
	seconds = min(max(seconds, 0), longest)
	return 1 + int(math.Round((levels-2)*math.Log1p(float64(seconds))/math.Log1p(float64(longest))))
}

// Runs codes symbols, none of which may be a digit: a symbol that is repeated is followed by how often it is there. So
// "ww" is "w2", and "wsss" is "ws3".
func Runs(symbols []byte) string {
	out := make([]byte, 0, 64)
	for i := 0; i < len(symbols); {
		n := 1
		for i+n < len(symbols) && symbols[i+n] == symbols[i] {
			n++
		}
		out = append(out, symbols[i])
		if n > 1 {
			out = strconv.AppendInt(out, int64(n), 10)
		}
		i += n
	}
	return string(out)
}

// Symbols decodes Runs. It refuses more than max symbols.
func Symbols(runs string, max int) ([]byte, error) {
	var out []byte
	for i := 0; i < len(runs); {
		symbol := runs[i]
		if symbol >= '0' && symbol <= '9' {
			return nil, errors.New("a run begins with a digit")
		}
		n, digits := 0, 0
		for i++; i < len(runs) && runs[i] >= '0' && runs[i] <= '9'; i++ {
			if n = n*10 + int(runs[i]-'0'); n > max {
				return nil, errors.New("there are too many symbols")
			}
			digits++
		}
		if digits == 0 {
			n = 1
		}
		if len(out)+n > max {
			return nil, errors.New("there are too many symbols")
		}
		for range n {
			out = append(out, symbol)
		}
	}
	return out, nil
}
