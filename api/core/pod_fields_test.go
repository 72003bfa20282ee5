package core

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

var update = flag.Bool("update", false, "write PODFIELDS.md")

// TestPODFIELDSIsUpToDate compares PODFIELDS.md with podSupport. The file lists every field of a Pod's spec in the order
// of the API; `go test ./api/core -run PODFIELDS -update` writes it.
func TestPODFIELDSIsUpToDate(t *testing.T) {
	const file = "PODFIELDS.md"
	want := fieldsOfPod()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(file); err != nil || string(have) != want {
		t.Errorf("%s does not agree with podSupport (%v): run this test with -update", file, err)
	}
}

func fieldsOfPod() string {
	var out strings.Builder
	out.WriteString(`# What jobd makes of each field of a Pod's spec

Generated from ` + "`pod_support.go`" + `, which decides. **works**: as in a cluster. **warns**: accepted without effect, and the
answer carries a warning that names the field. **refused**: an error with the reason given here. A value after "except for"
is accepted without a warning or an error.
`)
	seen := map[reflect.Type]bool{}
	types := []reflect.Type{reflect.TypeFor[corev1.PodSpec]()}
	for len(types) > 0 {
		typ := types[0]
		types = types[1:]
		if seen[typ] {
			continue
		}
		seen[typ] = true
		fmt.Fprintf(&out, "\n## %s\n\n| field | | |\n|---|---|---|\n", typ.Name())
		var fields func(reflect.Type)
		fields = func(typ reflect.Type) {
			for i := range typ.NumField() {
				f := typ.Field(i)
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				if name == "" { // inlined
					seen[f.Type] = true
					fields(f.Type)
					continue
				}
				rule := podSupport[typ][name]
				fieldRow(&out, name, rule)
				if inner := structBelow(f.Type); inner != nil && rule.effect == honours {
					types = append(types, inner)
				} else if rule.effect == honours && f.Type == reflect.TypeFor[corev1.ResourceList]() && !seen[f.Type] {
					seen[f.Type] = true
					for _, resource := range sortedKeys(podSupport[f.Type]) {
						shown := name + "[" + resource + "]"
						if strings.HasSuffix(resource, "-") {
							shown = name + "[" + resource + "*]"
						}
						fieldRow(&out, shown, podSupport[f.Type][resource])
					}
				}
			}
		}
		fields(typ)
	}
	return out.String()
}

func fieldRow(out *strings.Builder, name string, rule support) {
	what := map[effect]string{honours: "works", warns: "warns", refuses: "refused"}[rule.effect]
	var but []string
	for _, value := range rule.except {
		but = append(but, fmt.Sprintf("`%v`", value))
	}
	reason := rule.reason
	if len(but) > 0 {
		reason += "; except for " + strings.Join(but, ", ")
	}
	fmt.Fprintf(out, "| %s | %s | %s |\n", name, what, reason)
}
