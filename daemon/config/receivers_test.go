package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What docs/notices.md shows of the settings is read as it stands, and has one receiver of each kind at least.
func TestReceiversOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/notices.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(notify-receivers:.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page has no settings")
	}
	path := filepath.Join(t.TempDir(), "jobd.yaml")
	if err := os.WriteFile(path, block[1], 0o600); err != nil {
		t.Fatal(err)
	}
	c := Default()
	if err := c.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	if err := c.Complete(); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, r := range c.NotifyReceivers {
		kinds[r.Kind()] = true
	}
	if len(kinds) != 4 {
		t.Errorf("kinds %v", kinds)
	}
}

func TestReceiversByFlag(t *testing.T) {
	c := Default()
	for _, value := range []string{"ops=http://127.0.0.1:8080/?a=b,c", "chat=https://example.com/"} {
		if err := c.NotifyReceivers.Set(value); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Complete(); err != nil || c.NotifyReceivers["ops"].Webhook.URL != "http://127.0.0.1:8080/?a=b,c" || c.NotifyReceivers.String() != "chat,ops" {
		t.Errorf("%v: %v", c.NotifyReceivers, err)
	}
	if err := c.NotifyReceivers.Set("http://127.0.0.1"); err == nil {
		t.Error("a receiver without a name is taken")
	}
	c.NotifyReceivers = nil
	if err := c.NotifyReceivers.Set("Ops=file:///etc/passwd"); err != nil {
		t.Fatal(err)
	}
	if err := c.Complete(); err == nil || !strings.HasPrefix(err.Error(), "notify-receivers: ") {
		t.Errorf("%v", err)
	}
}

// Files of a directory add receivers, and a name that two have is an error.
func TestReceiversOfSeveralFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.yaml")
	if err := os.Mkdir(path+".d", 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(path, name string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("notify-receivers:\n  "+name+": {mail: {to: [root]}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "a")
	write(path+".d/b.yaml", "b")
	c := Default()
	if err := c.ReadFile(path); err != nil || c.NotifyReceivers.String() != "a,b" {
		t.Errorf("%v: %v", &c.NotifyReceivers, err)
	}
	write(path+".d/c.yaml", "a")
	c = Default()
	if err := c.ReadFile(path); err == nil || !strings.Contains(err.Error(), "c.yaml: notify-receivers: a is in "+path+" already") {
		t.Errorf("%v", err)
	}
}

// Devices of all files count, by their names.
func TestDevicesOfSeveralFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd.yaml")
	if err := os.Mkdir(path+".d", 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(path, name string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("devices:\n  "+name+": {replicas: 2}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(path, "example.com/a")
	write(path+".d/b.yaml", "example.com/b")
	c := Default()
	if err := c.ReadFile(path); err != nil || len(c.Devices) != 2 || c.Devices["example.com/a"].Replicas != 2 || c.Devices["example.com/b"].Replicas != 2 {
		t.Errorf("%+v: %v", c.Devices, err)
	}
	write(path+".d/c.yaml", "example.com/b")
	c = Default()
	if err := c.ReadFile(path); err == nil || !strings.Contains(err.Error(), "c.yaml: devices: example.com/b is in "+path+".d/b.yaml already") {
		t.Errorf("%v", err)
	}
}

// Whatever is a map has its names from all files: a map that ReadFile does not merge would be lost as a whole when another file has it.
func TestMapsOfSeveralFiles(t *testing.T) {
	var all []string
	for f := range reflect.TypeFor[Config]().Fields() {
		if f.Type.Kind() == reflect.Map {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			all = append(all, name)
		}
	}
	if want := []string{"devices", "notify-receivers", "runtime-handlers"}; !slices.Equal(slices.Sorted(slices.Values(all)), want) {
		t.Errorf("%q are maps, and %q are merged: have ReadFile merge the others, and add them here", all, want)
	}
}
