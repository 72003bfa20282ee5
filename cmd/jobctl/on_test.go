package main

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/jobd/jobd/api/why"
)

// The commands that jobctl suggests go to the server that it has spoken to: whoever copies one must not meet the Job of that name elsewhere.
func TestWordsThatReachTheSameServer(t *testing.T) {
	for _, c := range []struct {
		name           string
		to             target
		file, inFlags  string
		want, suggests string
	}{
		{"the socket", target{}, "/dev/null", "", "", "jobctl retry jobs/x"},
		{"a socket that the environment names", target{socket: "/a/s"}, "/dev/null", "", "", "jobctl retry jobs/x"},
		{"a socket that a flag names", target{socket: "/my jobd/s", named: true}, "/dev/null", "", " --socket '/my jobd/s'",
			"jobctl --socket '/my jobd/s' retry jobs/x"},
		{"a machine that a flag names", target{socket: "ssh://lab", named: true}, "/dev/null", "", " --socket ssh://lab",
			"jobctl --socket ssh://lab retry jobs/x"},
		{"a cluster by --server", target{cluster: true, named: true}, "", "big", " --context big", "jobctl --context big retry jobs/x"},
		{"the users' socket, where a kubeconfig in no directory names the namespace", target{users: true}, "/proc/self/fd/5", "", "",
			"jobctl retry jobs/x"},
		{"ssh by a context, as a user", target{users: true, context: "lab"}, "/proc/self/fd/5", "", " --context lab", "jobctl --context lab retry jobs/x"},
		{"a cluster", target{cluster: true}, "", "big", " --context big", "jobctl --context big retry jobs/x"},
		{"a cluster of a file", target{cluster: true}, "my cluster.yaml", "big", " --kubeconfig 'my cluster.yaml' --context big",
			"jobctl --kubeconfig 'my cluster.yaml' --context big retry jobs/x"},
	} {
		flags := genericclioptions.NewConfigFlags(true)
		flags.KubeConfig, flags.Context = &c.file, &c.inFlags
		s := submitter{flags: flags, to: &c.to}
		words := s.words()
		if words != c.want {
			t.Errorf("%s: %q, want %q", c.name, words, c.want)
		}
		causes := []why.Cause{{Causes: []why.Cause{{Help: []string{"jobctl retry jobs/x", "sudo jobd doctor"}}}}}
		reaching(causes, s.reach)
		if got := strings.Join(causes[0].Causes[0].Help, "; "); got != c.suggests+"; sudo jobd doctor" {
			t.Errorf("%s: %q, want %q", c.name, got, c.suggests)
		}
		image := strings.ReplaceAll(c.suggests, "retry jobs/x", "image pull i")
		if c.to.cluster { // where the command for images says that it works on the socket only
			image = "jobctl image pull i  # on that machine itself"
		}
		if got := s.reach("jobctl image pull i"); got != image {
			t.Errorf("%s: %q, want %q", c.name, got, image)
		}
	}
}
