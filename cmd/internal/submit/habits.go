package submit

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Unexpected is the error for arguments that are neither flags nor behind --: it says how they are meant to be written. program is
// what was typed, without flags and arguments.
func Unexpected(program string, args []string) error {
	first := args[0]
	if info, err := os.Stat(first); err == nil && info.Mode().IsRegular() ||
		slices.ContainsFunc([]string{".yaml", ".yml", ".json"}, func(end string) bool { return strings.HasSuffix(first, end) }) {
		return fmt.Errorf("unexpected argument %q: a file is named by -f: %s -f %[1]s", first, program)
	}
	example := program + " --image " + first
	if len(args) > 1 {
		example += " -- " + strings.Join(args[1:], " ")
	}
	return fmt.Errorf("unexpected argument %q: an image is named by --image, and its command follows --: %s", first, example)
}

// Habits makes a command say of flags that other programs have what to use instead.
func Habits(cmd *cobra.Command) {
	before := cmd.FlagErrorFunc()
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if help := habit(err.Error()); help != "" {
			return errors.New(help)
		}
		return before(c, err)
	})
}

// habit returns what to say instead of an error about a flag; "" if there is nothing better.
func habit(text string) string {
	if _, rest, ok := strings.Cut(text, `invalid argument "`); ok {
		if value, _, ok := strings.Cut(rest, `" for "-v, --v" flag`); ok {
			return fmt.Sprintf("-v says how much is logged: a volume is --volume %s", value)
		}
	}
	for _, h := range []struct{ flags, help string }{
		{
			"'i' 't' --interactive --tty --stdin",
			"for a terminal, jobctl submit -it --image IMAGE -- sh waits for its turn and attaches, and jobctl exec -it POD -- sh enters a pod that runs",
		},
		{"'p' --publish", "no port of a Job is published: jobctl port-forward reaches one, or a file (-f) with a hostPort or a Service"},
		{"'m'", "memory is --memory 4Gi"},
		{"'u' --user", "the user is the securityContext of a file (-f)"},
		{"--rm", "a Job is removed some time after its end by --ttl 10s"},
		{"--mount", "a volume is --volume HOST:PATH, or HOST:PATH:ro"},
		{"--cpus", "CPUs are --cpu 2"},
		{"--network --net", "the network of a Job is in a file (-f): hostNetwork: true"},
		{"--env-file", "variables are --env NAME=VALUE, or of a ConfigMap in a file (-f)"},
		{"--entrypoint --command", "the command follows --"},
		{"--array", "indexes are --indexed --completions 10"},
		{"--time", "a time limit is --deadline 1h"},
		{"--mem", "memory is --memory 4Gi"},
	} {
		for flag := range strings.FieldsSeq(h.flags) {
			if text == "unknown flag: "+flag || strings.HasPrefix(text, "unknown shorthand flag: "+flag) {
				return text + ": " + h.help
			}
		}
	}
	return ""
}
