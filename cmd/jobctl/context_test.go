package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const kubeconfigWithCluster = `
apiVersion: v1
kind: Config
clusters: [{name: prod, cluster: {server: https://prod.example.org}}]
contexts: [{name: prod, context: {cluster: prod, namespace: web}}]
current-context: prod
`

// TestContexts takes the commands about contexts, and what they lead to, beside a kubeconfig of a cluster.
func TestContexts(t *testing.T) {
	home := t.TempDir()
	config := filepath.Join(home, "config")
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("KUBECONFIG", config)
	t.Setenv(socketVariable, "")
	if err := os.WriteFile(config, []byte(kubeconfigWithCluster), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &daemon{home: home}
	run := func(want string, code int, args ...string) {
		t.Helper()
		out, got := d.jobctl(t, "", append(args, "--kubeconfig", config)...)
		if got != code || !strings.Contains(out, want) {
			t.Errorf("jobctl %s: %d: %s", strings.Join(args, " "), got, out)
		}
	}
	leads := func(want target, args ...string) {
		t.Helper()
		root := tree(t, "--context", "any")
		got, err := findTarget(root, args)
		if err != nil {
			t.Fatal(err)
		}
		got.byContext(os.Getenv)
		if (got.broken == nil) != (want.broken == nil) {
			t.Errorf("%v: %v", args, got.broken)
		}
		got.kubeconfig, got.broken, want.broken = "", nil, nil
		if got.named = false; got != want {
			t.Errorf("%v: %+v, not %+v", args, got, want)
		}
	}
	here := target{socket: defaultSocket, verb: "get"}
	lab := target{socket: "ssh://ann@lab:2222", verb: "get", context: "lab", namespace: "ann"}

	run("*         local   /run/jobd/jobd.sock", 0, "context")
	run("context lab added", 0, "context", "add", "lab", "ssh://lab", "-n", "ann")
	run("context lab changed", 0, "context", "add", "lab", "ssh://ann@lab:2222")
	run("          lab     ssh://ann@lab:2222    ann", 0, "context", "list")
	for _, refused := range [][]string{
		{"local is the jobd of this machine", "add", "local", "ssh://lab"},
		{"begins with ssh://", "add", "x", "https://lab"},
		{"no name of a host", "add", "x", "ssh://-x"},
		{"another context", "add", "prod", "ssh://lab"},
		{"no context \"prod\" that is reached by ssh", "use", "prod"},
		{"no context \"prod\" that is reached by ssh", "remove", "prod"},
		{"no context \"x\" that is reached by ssh", "use", "x"},
	} {
		run(refused[0], 1, append([]string{"context"}, refused[1:]...)...)
	}
	leads(here, "get")
	leads(lab, "get", "--context", "lab")
	leads(target{cluster: true, socket: defaultSocket, verb: "get"}, "get", "--context", "prod")
	leads(target{cluster: true, socket: defaultSocket, verb: "get"}, "get", "--context", "x")
	leads(target{cluster: true, socket: defaultSocket, verb: "get"}, "get", "--kubeconfig", config)

	run("commands go to ssh://ann@lab:2222", 0, "context", "use", "lab")
	run("*         lab", 0, "context", "list")
	leads(lab, "get")
	leads(target{cluster: true, socket: defaultSocket, verb: "get"}, "get", "--context", "prod")
	leads(target{socket: "/x", verb: "get"}, "get", "--socket", "/x")
	t.Setenv(socketVariable, "/y")
	leads(here, "get") // the variable is the flag's default
	t.Setenv(socketVariable, "")

	text, err := os.ReadFile(config)
	if err != nil || !strings.Contains(string(text), "current-context: prod") {
		t.Errorf("kubectl's own context is another one: %v, %s", err, text)
	}
	run("removed: commands go to the jobd of this machine", 0, "context", "remove", "lab")
	leads(here, "get")
	if err := choose("lab"); err != nil { // as it is when kubectl has removed it
		t.Fatal(err)
	}
	leads(target{socket: defaultSocket, verb: "get", broken: os.ErrNotExist}, "get")
	run("commands go to the jobd of this machine", 0, "context", "use", "local")
	leads(here, "get")
	if text, err := os.ReadFile(config); err != nil || strings.Contains(string(text), "lab") || !strings.Contains(string(text), "prod.example.org") {
		t.Errorf("%v, %s", err, text)
	}
}
