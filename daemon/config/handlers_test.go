package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/jobd/jobd/runtime"
)

func TestHandlersAsAFileHasThem(t *testing.T) {
	for _, tc := range []struct {
		name, file string
		want       Handlers
		failure    string
	}{
		{name: "a path", file: `{runsc: /bin/runsc}`, want: Handlers{"runsc": {Name: "runsc", Path: "/bin/runsc"}}},
		{name: "a path and options", file: `{runsc: {path: /bin/runsc, args: [--debug, --platform=kvm]}}`,
			want: Handlers{"runsc": {Name: "runsc", Path: "/bin/runsc", Args: []string{"--debug", "--platform=kvm"}}}},
		{name: "another crun", file: `{crun: /opt/crun}`, want: Handlers{"crun": {Name: "crun", Path: "/opt/crun"}}},
		{name: "a name that no class can have", file: `{Run_SC: /bin/runsc}`, failure: `runtime-handlers: "Run_SC": a lowercase RFC 1123 label must`},
		{
			name: "a path that depends on where jobd is started", file: `{runsc: bin/runsc}`,
			failure: `runtime-handlers: runsc: the path "bin/runsc" is not absolute`,
		},
		{name: "no path", file: `{runsc: {args: [a]}}`, failure: `runtime-handlers: runsc: the path "" is not absolute`},
		{name: "a setting that there is not", file: `{runsc: {path: /bin/runsc, options: [a]}}`, failure: `runsc: json: unknown field "options"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(path, []byte("runtime-handlers: "+tc.file), 0o600); err != nil {
				t.Fatal(err)
			}
			c := Default()
			err := c.ReadFile(path)
			if err == nil {
				err = c.Complete()
			}
			if tc.failure != "" {
				if err == nil || !strings.Contains(err.Error(), tc.failure) {
					t.Errorf("got %v, want %s", err, tc.failure)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(c.RuntimeHandlers, tc.want) {
				t.Errorf("got %+v, %v", c.RuntimeHandlers, err)
			}
		})
	}
}

func TestHandlersOfAFlagAddToThoseOfTheFile(t *testing.T) {
	h := Handlers{"kata": runtime.Handler{Name: "kata", Path: "/bin/kata"}}
	for _, value := range []string{"runsc=/bin/runsc,youki=/bin/youki", "runsc=/opt/runsc"} {
		if err := h.Set(value); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := h.String(), "kata=/bin/kata,runsc=/opt/runsc,youki=/bin/youki"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if err := h.Set("/bin/runsc"); err == nil || !strings.Contains(err.Error(), "is not of the form NAME=PATH") {
		t.Errorf("without a name: %v", err)
	}
}
