package core

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestModesThatWereMeantToBeOctal: of each place where a mode can stand, those that nobody means are said, and no other ones.
func TestModesThatWereMeantToBeOctal(t *testing.T) {
	pod := podOf(t, `
spec:
  containers: [{name: c, image: i}]
  volumes:
  - {name: a, secret: {secretName: s, defaultMode: 400, items: [{key: k, path: k, mode: 0400}, {key: l, path: l, mode: 444}]}}
  - {name: b, configMap: {name: s, defaultMode: 440, items: [{key: k, path: k, mode: 500}]}}
  - {name: c, downwardAPI: {defaultMode: 256, items: [{path: k, mode: 400, fieldRef: {fieldPath: metadata.name}}]}}
  - name: d
    projected:
      defaultMode: 444
      sources:
      - secret: {name: s, items: [{key: k, path: k, mode: 400}]}
      - configMap: {name: s, items: [{key: k, path: k, mode: 493}]}
      - downwardAPI: {items: [{path: k, mode: 440, fieldRef: {fieldPath: metadata.name}}]}
      - serviceAccountToken: {path: t}
  - {name: e, emptyDir: {}}`)
	var want []string
	for _, line := range []string{
		"0].secret.defaultMode: 400 is a decimal number, and the mode 0620: for the mode 0400 write 0400 in YAML, and 256 in JSON",
		"0].secret.items[1].mode: 444 is a decimal number, and the mode 0674: for the mode 0444 write 0444 in YAML, and 292 in JSON",
		"1].configMap.defaultMode: 440 is a decimal number, and the mode 0670: for the mode 0440 write 0440 in YAML, and 288 in JSON",
		"1].configMap.items[0].mode: 500 is a decimal number, and the mode 0764: for the mode 0500 write 0500 in YAML, and 320 in JSON",
		"2].downwardAPI.items[0].mode: 400 is a decimal number, and the mode 0620: for the mode 0400 write 0400 in YAML, and 256 in JSON",
		"3].projected.defaultMode: 444 is a decimal number, and the mode 0674: for the mode 0444 write 0444 in YAML, and 292 in JSON",
		"3].projected.sources[0].secret.items[0].mode: 400 is a decimal number, and the mode 0620: for the mode 0400 write 0400 in YAML, and 256 in JSON",
		"3].projected.sources[2].downwardAPI.items[0].mode: 440 is a decimal number, and the mode 0670: for the mode 0440 write 0440 in YAML, and 288 in JSON",
	} {
		want = append(want, "spec.volumes["+line)
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), strings.Join(podWarnings(pod), "\n")); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
