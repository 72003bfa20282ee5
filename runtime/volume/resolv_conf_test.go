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

func TestOptionsOfResolvConf(t *testing.T) {
	list := func(s string) (out []corev1.PodDNSConfigOption) {
		for one := range strings.FieldsSeq(s) {
			o := corev1.PodDNSConfigOption{}
			name, value, ok := strings.Cut(one, "=")
			if o.Name = name; ok {
				o.Value = &value
			}
			out = append(out, o)
		}
		return out
	}
	for _, c := range []struct{ have, added, want string }{
		{"ndots:5", "", "ndots:5"},
		{"ndots:5", "edns0", "ndots:5 edns0"},
		{"a ndots:5 b", "ndots=2", "a b ndots:2"},
		{"ndots:5", "ndots", "ndots"},
		{"", "a=1 b a=2", "b a:2"},
		{"a a:1", "b a a=1 b=2", "a:1 b:2"},
		{"", "a:1 a", "a"},
		{"", "a a:1", "a a:1"},
		{"", "a:1 a:1", "a:1 a:1"},
	} {
		got := strings.Join(replaceOptions(strings.Fields(c.have), list(c.added)), " ")
		if got != c.want {
			t.Errorf("%q and %q: got %q, want %q", c.have, c.added, got, c.want)
		}
	}
}

// To compare each with each other one would take minutes.
func TestManyLinesOfResolvConf(t *testing.T) {
	const many = 500_000
	c := &corev1.PodDNSConfig{}
	for i := range many {
		name := strconv.Itoa(i)
		c.Options, c.Searches = append(c.Options, corev1.PodDNSConfigOption{Name: name}), append(c.Searches, name)
	}
	content, _, err := resolvConf(&corev1.Pod{Spec: corev1.PodSpec{DNSPolicy: corev1.DNSNone, DNSConfig: c}}, "")
	if _, _, options := parseResolvConf(string(content)); err != nil || len(options) != many {
		t.Errorf("%d options, %v", len(options), err)
	}
}
