package oci

import (
	"fmt"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
)

func TestParseEnvFile(t *testing.T) {
	for _, c := range []struct{ name, content, want, err string }{
		{"values in quotes", "A='1'\nB='2 3'\n", "map[A:1 B:2 3]", ""},
		{"without a newline at the end", "A='1'", "map[A:1]", ""},
		{"empty lines, comments and spaces are passed over", "\n  # A='0'\n\t A = '1'  \r\n\n", "map[A:1]", ""},
		{"over several lines", "A='1\n# 2\n'\nB='3'\n", "map[A:1\n# 2\n B:3]", ""},
		{"nothing is replaced", `A='$B\n"` + "`x`" + `'`, "map[A:$B\\n\"`x`]", ""},
		{"the later one counts", "A='1'\nA='2'\n", "map[A:2]", ""},
		{"an empty value", "A=''\n", "map[A:]", ""},
		{"an empty file", "", "map[]", ""},
		{"without quotes", "B='1\n'\nA=1\n", "", "line 3: the value of A is not in single quotes"},
		{"in double quotes", `A="1"`, "", "not in single quotes"},
		{"without an end", "A='1\n", "", "no closing quote"},
		{"with something behind", "A='1'2\n", "", "something follows the value of A"},
		{"no variable", "A\n", "", "line 1: no NAME='value'"},
		{"a name with a space", "export A='1'\n", "", "line 1: no NAME='value'"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseEnvFile(c.content)
			if c.err == "" && (err != nil || fmt.Sprint(got) != c.want) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestVariableFromAFile(t *testing.T) {
	files := map[string]string{"good.env": "A='1'\n", "bad.env": "A=1\n"}
	for _, c := range []struct {
		name, path, key string
		optional        bool
		want, err       string // want - is: not set
	}{
		{"a key", "good.env", "A", false, "1", ""},
		{"a key that is missing", "good.env", "B", false, "", `environment variable key "B" not found in file "good.env"`},
		{"an optional one", "good.env", "B", true, "-", ""},
		{"a file that is missing", "no.env", "A", false, "", "couldn't read the file no.env of the volume v"},
		{"an optional one", "no.env", "A", true, "-", ""},
		{"a bad file, optional or not", "bad.env", "A", true, "", "couldn't parse the file bad.env of the volume v: line 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{VolumeFile: func(volume, path string) ([]byte, error) {
				content, ok := files[path]
				if !ok || volume != "v" {
					return nil, errdefs.ErrNotFound
				}
				return []byte(content), nil
			}}
			value, ok, err := fileKey(in, &corev1.FileKeySelector{VolumeName: "v", Path: c.path, Key: c.key, Optional: &c.optional})
			switch {
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("got %v", err)
			case c.err == "" && (err != nil || ok != (c.want != "-") || ok && value != c.want):
				t.Errorf("got %q, %v, %v", value, ok, err)
			}
		})
	}
}
