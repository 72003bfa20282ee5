package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func TestTarget(t *testing.T) {
	socket := func(path, verb string) target { return target{socket: path, verb: verb} }
	cluster := func(verb string) target { return target{cluster: true, socket: defaultSocket, verb: verb} }
	root := tree(t, "--context", "any") // without what is refused on the socket
	for args, want := range map[string]target{
		"get pods":                              socket(defaultSocket, "get"),
		"get pods --socket /x":                  socket("/x", "get"),
		"--socket=/x get pods -o wide":          socket("/x", "get"),
		"--socket /x image list":                socket("/x", "image"),
		"-ndefault image list":                  socket(defaultSocket, "image"),
		"help":                                  socket(defaultSocket, ""),
		"help get":                              socket(defaultSocket, ""),
		"get --help":                            socket(defaultSocket, "get"),
		"nosuch -ojson":                         socket(defaultSocket, ""),
		"-v 6 get pods":                         socket(defaultSocket, "get"),
		"get pods -v=6 -ojson -As":              socket(defaultSocket, "get"), // -s without a value: cobra refuses it
		"get pods -Asjson":                      cluster("get"),
		"get pods -As https://x":                cluster("get"),
		"get pods -s=https://x":                 cluster("get"),
		"get pods -shttps://x":                  cluster("get"),
		"get pods -s https://x":                 cluster("get"),
		"-s https://x get pods":                 cluster("get"),
		"-s=https://x get pods":                 cluster("get"),
		"get pods --server https://x":           cluster("get"),
		"--server=https://x get pods":           cluster("get"),
		"get pods --context c":                  cluster("get"),
		"--kubeconfig=f get pods":               cluster("get"),
		"--kubeconfig f rollout restart x":      cluster("rollout"),
		"image list --context c":                cluster("image"),
		"help get --context c":                  cluster(""),
		"get --help --context c":                cluster("get"),
		"logs jobs/x --stream stdout -s url":    cluster("logs"),
		"submit --deadline 5s -s url":           cluster("submit"),
		"exec pod -it -s url -- sh":             cluster("exec"),
		"get jobs -ojson":                       socket(defaultSocket, "get"),
		"get jobs -ojsonpath={.items}":          socket(defaultSocket, "get"),
		"get jobs -nkube-system":                socket(defaultSocket, "get"),
		"get jobs -Lstate":                      socket(defaultSocket, "get"),
		"get jobs -lbatch.kubernetes.io/x=s":    socket(defaultSocket, "get"),
		"get jobs -n -s":                        socket(defaultSocket, "get"),
		"get jobs -n --server":                  socket(defaultSocket, "get"),
		"get jobs -n --context=c":               socket(defaultSocket, "get"),
		"get pods -l context=c -o kubeconfig":   socket(defaultSocket, "get"),
		"delete jobs --all -nstaging":           socket(defaultSocket, "delete"),
		"logs jobs/x -csidecar":                 socket(defaultSocket, "logs"),
		"logs jobs/x --since -5s":               socket(defaultSocket, "logs"),
		"logs jobs/x --stream -s":               socket(defaultSocket, "logs"),
		"apply -fjobs.yaml":                     socket(defaultSocket, "apply"),
		"submit -fjobs.yaml":                    socket(defaultSocket, "submit"),
		"submit --image x --deadline -5s":       socket(defaultSocket, "submit"),
		"submit --name --context --image x":     socket(defaultSocket, "submit"),
		"wait --for=finished x --timeout -1s":   socket(defaultSocket, "wait"),
		"create job x --image=y -- sh -s":       socket(defaultSocket, "create"),
		"create job x -- sh --context c":        socket(defaultSocket, "create"),
		"exec pod -it -csidecar -- bash -s":     socket(defaultSocket, "exec"),
		"config set-cluster x --server=https:x": socket(defaultSocket, "config"), // is no question to a server
		"__complete get --context c pods ":      cluster("get"),
		"__complete get --context ":             cluster("get"), // its value is being typed
		"__completeNoDesc get -s url pods ":     cluster("get"),
		"__complete get pods -ojs":              socket(defaultSocket, "get"),
		"__complete get pods -n -s ":            socket(defaultSocket, "get"),
		"__complete get pods --serv":            socket(defaultSocket, "get"),
		"__complete ge":                         socket(defaultSocket, ""),
		"__complete":                            socket(defaultSocket, ""),
	} {
		got, err := findTarget(root, strings.Split(args, " "))
		got.context, got.kubeconfig, got.named = "", "", false
		if err != nil || got != want {
			t.Errorf("%s: %+v, not %+v: %v", args, got, want, err)
		}
	}
	for _, args := range []string{"--socket /x get pods --context c", "get pods -s url --socket=/x"} {
		if _, err := findTarget(root, strings.Split(args, " ")); !errors.Is(err, errTwoTargets) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

func TestTheEnvironmentNamesTheSocket(t *testing.T) {
	env := func(name string) string { return map[string]string{socketVariable: "/env"}[name] }
	if got := socketOf(env); got != "/env" {
		t.Error(got)
	}
	if got := socketOf(func(string) string { return "" }); got != defaultSocket {
		t.Error(got)
	}
}

// FuzzNoValueOfAFlagChoosesTheServer gives flags to commands, each of them attached or not, with values that look like the
// flags that choose a server. Only these flags themselves may do so.
func FuzzNoValueOfAFlagChoosesTheServer(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed, "s")
	}
	f.Add(uint64(1), "-s")
	f.Add(uint64(2), "--server=https://x")
	f.Add(uint64(3), "--")
	f.Add(uint64(4), "")
	var commands []*cobra.Command
	root := tree(f, "--context", "any")
	each(root, func(c *cobra.Command) { commands = append(commands, c) })
	values := []string{
		"json", "-5s", "-s", "-s=x", "--server", "--server=x", "--context", "--kubeconfig=f", "s", "kube-system", "", "--", "-As",
		"--socket",
	}
	f.Fuzz(func(t *testing.T, seed uint64, own string) {
		random := rand.New(rand.NewPCG(seed, 0))
		value := func() string { return append(values, own)[random.IntN(len(values)+1)] }
		c := commands[random.IntN(len(commands))]
		var flags []*pflag.Flag
		c.InheritedFlags()
		c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, f) })
		args, cluster, socket := strings.Fields(c.CommandPath())[1:], false, false
		for range random.IntN(4) {
			f := flags[random.IntN(len(flags))]
			if random.IntN(8) == 0 {
				f = c.Flags().Lookup([]string{"kubeconfig", "context", "server", "socket"}[random.IntN(4)])
			}
			args = append(args, write(random, c, f, value())...)
			global := f == root.PersistentFlags().Lookup(f.Name) // and none of the command's own, as those of config
			cluster = cluster || global && slices.Contains([]string{"kubeconfig", "context", "server"}, f.Name)
			socket = socket || f.Name == "socket"
		}
		if random.IntN(2) == 0 {
			args = append(args, "--", value(), value())
		}
		got, err := findTarget(root, args)
		switch {
		case cluster && socket:
			if !errors.Is(err, errTwoTargets) {
				t.Errorf("%q: %+v %v", args, got, err)
			}
		case err != nil || got.cluster != cluster:
			t.Errorf("%q: %+v %v", args, got, err)
		}
	})
}

// write writes a flag with a value in one of the ways in which it can be.
func write(random *rand.Rand, c *cobra.Command, f *pflag.Flag, value string) []string {
	if f.NoOptDefVal != "" { // its value cannot be the next argument
		return []string{"--" + f.Name + []string{"", "=" + value}[random.IntN(2)]}
	}
	// The letter of a flag that a command has in place of its parent's is the parent's.
	short := f.Shorthand != "" && c.Flags().ShorthandLookup(f.Shorthand) == f
	switch way := random.IntN(5); {
	case way == 0 && short && value != "":
		return []string{"-" + f.Shorthand + "=" + value}
	case way == 1 && short && value != "" && !strings.HasPrefix(value, "="):
		return []string{"-" + f.Shorthand + value}
	case way == 2 && short:
		return []string{"-" + f.Shorthand, value}
	case way == 3:
		return []string{"--" + f.Name, value}
	}
	return []string{"--" + f.Name + "=" + value}
}

// TestTheValueOfAnotherFlagLeadsToNoCluster runs jobctl beside a kubeconfig of another server.
func TestTheValueOfAnotherFlagLeadsToNoCluster(t *testing.T) {
	here, there := startDaemon(t), startDaemon(t)
	for _, d := range []*daemon{here, there} {
		if out, code := d.jobctl(t, pi, "apply", "-f", "-"); code != 0 {
			t.Fatal(out)
		}
	}
	config, err := os.ReadFile(there.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	// Where jobctl looks when it speaks to a cluster: $KUBECONFIG of these tests is HOME/none.
	if err := os.WriteFile(filepath.Join(here.home, "none"), config, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{"get jobs pi -ojson", "delete jobs --all -ndefault --cascade=background"} {
		if out, code := here.jobctl(t, "", strings.Fields(args)...); code != 0 {
			t.Errorf("%s: %s", args, out)
		}
	}
	if out, _ := here.jobctl(t, "", "get", "jobs", "-oname"); strings.Contains(out, "pi") {
		t.Errorf("it was not deleted here: %s", out)
	}
	if out, _ := there.jobctl(t, "", "get", "jobs", "-oname"); !strings.Contains(out, "pi") {
		t.Errorf("it was deleted there: %s", out)
	}
	if out, _ := here.jobctl(t, "", "get", "jobs", "-oname", "--context="); !strings.Contains(out, "pi") {
		t.Errorf("--context does not lead there: %s", out)
	}
}
