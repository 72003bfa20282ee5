package volume

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestResolvConfLeavesOutWhatResolversDoNotTake(t *testing.T) {
	many := func(n int, suffix string) (list []string) {
		for i := range n {
			list = append(list, "d"+strconv.Itoa(i)+suffix)
		}
		return list
	}
	long := strings.Repeat("a.", 127)
	wide := many(10, "."+strings.Repeat("x", 245)) // 8 of them, with the spaces between them, are just within the line
	servers := []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"}
	const fewer, shorter = "the applied nameserver line is: ", "the applied search line is: "
	for _, c := range []struct {
		name              string
		servers, searches []string
		keptServers       []string
		keptSearches      []string
		says              []string
	}{
		{"all", servers[:3], many(32, ""), servers[:3], many(32, ""), nil},
		{"repetitions do not count", append(servers[:3:3], servers[0]), nil, servers[:3], nil, nil},
		{"too many name servers", servers, nil, servers[:3], nil, []string{fewer + "10.0.0.1 10.0.0.2 10.0.0.3"}},
		{"too many domains", servers[:1], many(33, ""), servers[:1], many(32, ""), []string{shorter + strings.Join(many(32, ""), " ")}},
		{"a domain that is too long", servers[:1], []string{"a", long, "b"}, servers[:1], []string{"a", "b"}, []string{shorter + "a b"}},
		{"a line that is too long", servers[:1], wide, servers[:1], wide[:8], []string{shorter + strings.Join(wide[:8], " ")}},
		{"both", servers, many(33, ""), servers[:3], many(32, ""), []string{fewer, shorter}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &corev1.Pod{Spec: corev1.PodSpec{
				DNSPolicy: corev1.DNSNone,
				DNSConfig: &corev1.PodDNSConfig{Nameservers: c.servers, Searches: c.searches},
			}}
			content, omitted, err := resolvConf(p, "")
			if err != nil {
				t.Fatal(err)
			}
			gotServers, gotSearches, _ := parseResolvConf(string(content))
			if !slices.Equal(gotServers, c.keptServers) || !slices.Equal(gotSearches, c.keptSearches) {
				t.Errorf("wrote %s", content)
			}
			if line, _, _ := strings.Cut(string(content), "\n"); len(line) > len("search ")+maxSearchLine {
				t.Errorf("the search line has %d bytes", len(line))
			}
			if !slices.EqualFunc(omitted, c.says, strings.Contains) {
				t.Errorf("says %q", omitted)
			}
		})
	}
}
