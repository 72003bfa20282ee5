package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/jobd/jobd/daemon/config"
)

// TestConfig takes the # from every setting of the printed file: it is one that jobd reads, has every field, and says what
// holds without a file, but for the examples.
func TestConfig(t *testing.T) {
	var out strings.Builder
	if err := writeConfig(&out); err != nil {
		t.Fatal(err)
	}
	active := regexp.MustCompile(`(?m)^#(\S|  \S)`).ReplaceAllString(out.String(), "$1")
	path := filepath.Join(t.TempDir(), "jobd.yaml")
	if err := os.WriteFile(path, []byte(active), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := config.Default()
	if err := settings.ReadFile(path); err != nil {
		t.Fatalf("%v in\n%s", err, active)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Config]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "-" && !strings.Contains(active, "\n"+name+":") {
			t.Errorf("the file lacks %s", name)
		}
	}
	if err := settings.Complete(); err != nil {
		t.Errorf("the file is refused: %v", err)
	}
	if settings.RuntimeHandlers["runsc"].Path == "" {
		t.Error("the example of runtime-handlers is not read")
	}
	if settings.NotifyReceivers["ops"] == nil {
		t.Error("the example of notify-receivers is not read")
	}
	if len(settings.Users) != 2 || settings.Users[0].Quota["pods"] != "100" {
		t.Error("the example of users is not read")
	}
	settings.Users = nil
	settings.NotifyReceivers = nil
	settings.RuntimeHandlers, settings.PodSecurity = nil, config.Default().PodSecurity
	want := config.Default()
	if err := want.Complete(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(settings, want) {
		t.Errorf("the file says\n%+v\nthe defaults are\n%+v", settings, want)
	}
	// As it is printed, it changes nothing.
	if err := os.WriteFile(path, []byte(out.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	printed := config.Default()
	if err := printed.ReadFile(path); err != nil || !reflect.DeepEqual(printed, config.Default()) {
		t.Errorf("the printed file sets something (%v):\n%s", err, out.String())
	}
}
