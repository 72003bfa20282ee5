package nvidia

import (
	"os"
	"os/exec"
	"testing"
)

func TestPodOf(t *testing.T) {
	for name, c := range map[string]struct{ groups, want string }{
		"of a pod":                       {"0::/jobd/1b4e28ba.main.0\n", "1b4e28ba"},
		"of a pod with limits":           {"0::/jobd/pod-1b4e28ba/1b4e28ba.main.0\n", "1b4e28ba"},
		"in a group of its own below":    {"0::/jobd/1b4e28ba.main.0/inner/docker\n", "1b4e28ba"},
		"of a pod that was torn down":    {"0::/jobd/1b4e28ba.main.0 (deleted)\n", "1b4e28ba"},
		"with v1":                        {"5:devices:/user.slice\n4:memory:/jobd/1b4e28ba.main.2\n", "1b4e28ba"},
		"of a user":                      {"0::/user.slice/user-1000.slice/session-3.scope\n", ""},
		"of the daemon":                  {"0::/system.slice/jobd.service\n", ""},
		"of a shard":                     {"0::/jobd-shards/shard-0\n", ""},
		"of another jobd":                {"0::/jobd-42cb1082/1b4e28ba.main.0\n", ""},
		"of a group that ends like ours": {"0::/user.slice/jobd/1b4e28ba.main.0\n", ""},
		"that left by dots":              {"0::/jobd/../user.slice/x\n", ""},
		"of nothing":                     {"", ""},
		"garbled":                        {"0:\n:\n::\n", ""},
	} {
		if got := podOf(c.groups, "/jobd"); got != c.want {
			t.Errorf("a process %s belongs to %q, want %q", name, got, c.want)
		}
	}
}

func TestStartOf(t *testing.T) {
	if got := startOf("7 (a) b) R 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 12345 1 2"); got != "12345" {
		t.Errorf("it was started at %q", got)
	}
	if got := startOf("7 (a"); got != "" {
		t.Errorf("it was started at %q", got)
	}
}

func TestOwners(t *testing.T) {
	o := Owners{Proc: "/proc", Parent: "/jobd-of-nobody"}
	if of := o.Of(os.Getpid()); of.Gone || of.Pod != "" || of.User == "" || of.Started == "" {
		t.Errorf("this process: %+v", of)
	}
	if of := o.Of(1 << 30); !of.Gone {
		t.Errorf("a process that is not there: %+v", of)
	}
	child := exec.Command("true")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for o.Of(child.Process.Pid) != (Owner{Gone: true}) { // it has ended, and was not waited for
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}
