package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jobd/jobd/api/people"
)

// TestUsers reads the settings of docs/team.md, and those that the packages bring.
func TestUsers(t *testing.T) {
	page, err := os.ReadFile("../../docs/team.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(socket-group:.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("the page has no settings")
	}
	packaged, err := os.ReadFile("../../packaging/users.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{string(block[1]): "alice,@jobd", string(packaged): "@jobd"} {
		path := filepath.Join(t.TempDir(), "jobd.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Default()
		if err := c.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		if err := c.Complete(); err != nil || c.Users.String() != want || c.SocketGroup != "root" || c.UsersSocket != "/run/jobd/jobd-users.sock" {
			t.Errorf("%v: %+v, %s, %s", err, c.Users, c.SocketGroup, c.UsersSocket)
		}
	}
	for wrong, set := range map[string]func(*Config){
		"users: entry 1: ": func(c *Config) { c.Users = people.Settings{{}} },
		"users-socket: ":   func(c *Config) { c.UsersSocket = c.StateLayout().Socket() },
	} {
		c := Default()
		set(&c)
		if err := c.Complete(); err == nil || !strings.HasPrefix(err.Error(), wrong) {
			t.Errorf("%v, want %q", err, wrong)
		}
	}
}

// Files of the directory beside the file win over it, in their order.
func TestMoreFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "jobd[1].yaml")
	if err := os.Mkdir(path+".d", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		path: "max-pods: 1\nlog-level: debug\n", path + ".d/b.yaml": "max-pods: 3\n", path + ".d/a.yaml": "max-pods: 2\nsocket-group: a\n",
		path + ".d/c.yaml.old": "max-pods: 4\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Default()
	if err := c.ReadFile(path); err != nil || c.MaxPods != 3 || c.LogLevel != "debug" || c.SocketGroup != "a" {
		t.Errorf("%v: %d, %s, %s", err, c.MaxPods, c.LogLevel, c.SocketGroup)
	}
	if err := os.WriteFile(path+".d/d.yaml", []byte("max-podds: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.ReadFile(path); err == nil || !strings.Contains(err.Error(), "d.yaml") {
		t.Errorf("a file that is wrong is not named: %v", err)
	}
}
