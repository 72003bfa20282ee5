package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestWhatIsWrongInAFileIsNamed(t *testing.T) {
	for content, want := range map[string]string{
		"history-age: x":                               `line 1: history-age: time: invalid duration "x"`,
		"# a\nmax-pods: 5\nevent-ttl: 5\n":             "line 3: event-ttl: json: cannot unmarshal number",
		"max-pods: many":                               "line 1: max-pods: json: cannot unmarshal string",
		"root: /r\nhistroy-age: 1h":                    "line 2: there is no setting histroy-age; jobd config",
		"runtime-handlers: {runsc: {options: [a]}}":    `line 1: runtime-handlers: runsc: json: unknown field "options"`,
		"max-pods: 5\nmax-pods: 6":                     `line 2: key "max-pods" already set`,
		"root: [":                                      "yaml: line 1",
		"- root":                                       "cannot unmarshal array",
		"allocatable: 5\nevent-ttl: &ttl 1h\nstate: 1": "",
	} {
		path := filepath.Join(t.TempDir(), "jobd.yaml")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Default()
		err := c.ReadFile(path)
		wrong := err != nil && (!strings.Contains(err.Error(), path+": ") || !strings.Contains(err.Error(), want))
		if (err == nil) != (want == "") || wrong {
			t.Errorf("%s: got %v, want %q", content, err, want)
		}
	}
}

// A variable that is not set must not make the current directory a root.
func TestRootAndStateAreDirectoriesOfTheirOwn(t *testing.T) {
	for _, dir := range []string{"", "/", "//", "/tmp/.."} {
		for setting, set := range map[string]func(*Config){
			"root": func(c *Config) { c.Root = dir }, "state": func(c *Config) { c.State = dir },
		} {
			c := Default()
			set(&c)
			if err := c.Complete(); err == nil || !strings.HasPrefix(err.Error(), setting) {
				t.Errorf("%s %q: got %v, want that it is refused", setting, dir, err)
			}
		}
	}
}

func TestShutdownGracePeriod(t *testing.T) {
	for value, ok := range map[time.Duration]bool{0: true, 90 * time.Second: true, 24 * time.Hour: true, -1: false, 25 * time.Hour: false} {
		c := Default()
		c.Root, c.State, c.ShutdownGracePeriod.Duration = t.TempDir(), t.TempDir(), value
		if err := c.Complete(); (err == nil) != ok || err != nil && !strings.Contains(err.Error(), "shutdown-grace-period") {
			t.Errorf("%v: %v", value, err)
		}
	}
}
