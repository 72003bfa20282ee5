package network

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestRanges(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.0/8":                                  "10.0.0.0-10.255.255.255",
		"0.0.0.0/0":                                   "0.0.0.0-255.255.255.255",
		"10.0.0.7/32":                                 "10.0.0.7-10.0.0.7",
		"10.0.0.0/30 10.0.0.1/32":                     "10.0.0.0-10.0.0.0 10.0.0.2-10.0.0.3",
		"10.0.0.0/30 10.0.0.0/31":                     "10.0.0.2-10.0.0.3",
		"10.0.0.0/30 10.0.0.2/31 10.0.0.0/32":         "10.0.0.1-10.0.0.1",
		"10.0.0.0/31 10.0.0.0/32 10.0.0.1/32":         "",
		"0.0.0.0/0 0.0.0.0/1 255.255.255.255/32":      "128.0.0.0-255.255.255.254",
		"2001:db8::/32":                               "",
		"10.0.0.0/30 10.0.0.0/31 10.0.0.0/32 ::1/128": "10.0.0.2-10.0.0.3",
	} {
		var prefixes []netip.Prefix
		for p := range strings.FieldsSeq(text) {
			prefixes = append(prefixes, netip.MustParsePrefix(p))
		}
		if got := show(Ranges(prefixes[0], prefixes[1:]...)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// A block with more exceptions than any policy may have takes no time to speak of: somebody's pods wait for it.
func TestRangesOfManyExceptions(t *testing.T) {
	var except []netip.Prefix
	for i := range uint32(200_000) {
		except = append(except, netip.PrefixFrom(add(netip.MustParseAddr("10.0.0.0"), 2*i), 32))
	}
	rand.Shuffle(len(except), func(i, j int) { except[i], except[j] = except[j], except[i] })
	if got := Ranges(netip.MustParsePrefix("10.0.0.0/8"), except...); len(got) != len(except) {
		t.Errorf("%d ranges", len(got))
	}
}

func show(ranges []AddressRange) string {
	var out []string
	for _, r := range ranges {
		out = append(out, fmt.Sprintf("%s-%s", r.First, r.Last))
	}
	return strings.Join(out, " ")
}

// TestMergedRanges has the same addresses in merged ranges, which have gaps between them.
func TestMergedRanges(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		ends := []byte{0, 1, 2, 7, 8, 9, 254, 255}
		at := func(last byte) netip.Addr { return netip.AddrFrom4([4]byte{255, 255, 255, last}) }
		var ranges []AddressRange
		for range r.IntN(5) {
			a, b := ends[r.IntN(len(ends))], ends[r.IntN(len(ends))]
			ranges = append(ranges, AddressRange{at(min(a, b)), at(max(a, b))})
		}
		merged := Merge(ranges)
		for i := range 256 {
			in := func(r AddressRange) bool { return r.contains(at(byte(i))) }
			if slices.ContainsFunc(ranges, in) != slices.ContainsFunc(merged, in) {
				t.Fatalf("%s merged to %s: %d differs", show(ranges), show(merged), i)
			}
		}
		for i := 1; i < len(merged); i++ {
			if before := merged[i-1].Last.Next(); !before.IsValid() || !before.Less(merged[i].First) {
				t.Fatalf("%s merged to %s", show(ranges), show(merged))
			}
		}
	}
}
