package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPodSecurityInTheFile(t *testing.T) {
	for content, want := range map[string]string{
		"pod-security: {defaults: {enforce: baseline, warn-version: v1.30}, exemptions: {namespaces: [kube-system], usernames: [\"jobd:uid:0\"]}}": "",
		"pod-security: {kind: PodSecurityConfiguration, defaults: {enforce: restricted}}":                                                          "",
		"pod-security: {defaults: {enforce: strict}}":                                                                                              `pod-security.defaults.enforce: Invalid value: "strict": must be one of privileged, baseline, restricted`,
		"pod-security: {exemptions: {namespaces: [_]}}":                                                                                            `pod-security.exemptions.namespaces[0]: Invalid value: "_"`,
		"pod-security: {default: {enforce: baseline}}":                                                                                             `unknown field "default"`,
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Default()
		err := c.ReadFile(path)
		if err == nil {
			err = c.Complete()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}
