package submit

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Unexpected is the error for arguments that are neither flags nor behind --: it says how they are meant to be written. program is
// what was typed, without flags and arguments, and image what its flag --image says.
func Unexpected(program, image string, args []string) error {
	first := args[0]
	info, err := os.Stat(first)
	if err == nil && info.Mode().IsRegular() ||
		slices.ContainsFunc([]string{".yaml", ".yml", ".json"}, func(end string) bool { return strings.HasSuffix(first, end) }) {
		return fmt.Errorf("unexpected argument %q: a file is named by -f: %s -f %[1]s", first, program)
	}
	if slices.Contains([]string{".sh", ".bash", ".py", ".pl", ".R", ".sbatch", ".slurm", ".pbs"}, path.Ext(first)) {
		return fmt.Errorf("there is no file %s here; a program of the image follows --: %s --image %s -- %[1]s", first, program, cmp.Or(image, "IMAGE"))
	}
	if image != "" {
		return fmt.Errorf("unexpected argument %q: the command follows --: %s --image %s -- %s", first, program, image, strings.Join(args, " "))
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
		if near := flagMeant(c.Flags(), err.Error()); near != "" {
			return fmt.Errorf("%w: is --%s meant?", err, near)
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
	if said, why, ok := strings.Cut(text, " flag: "); ok && strings.HasPrefix(said, "invalid argument ") {
		switch {
		case strings.Contains(said, `for "--gpus"`):
			return said + " flag: it takes a number of GPUs; jobctl top --gpus lists those of this machine"
		case strings.HasPrefix(why, "strconv.ParseInt: "):
			return said + " flag: it takes a whole number"
		case strings.HasPrefix(why, "time: "):
			return said + " flag: it takes a length of time such as 90s, 30m or 1h30m"
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
		{"--env-from", "the variables of a ConfigMap or a Secret are envFrom in a file (-f)"},
		{"--gpu --gres", "GPUs are --gpus 1"},
		{"'J' --job-name", "a name is --name NAME"},
		{"'N' --nodes --ntasks", "there is one machine: several pods are --completions 4 --parallelism 4, and CPUs --cpu 4"},
		{"--retries --restart", "how often a pod may fail is --backoff-limit 3"},
		{"--timeout --time-limit", "a time limit is --deadline 1h"},
		{"--entrypoint --command", "the command follows --"},
		{"--array", "indexes are --indexed --completions 10, from 0 on"},
		{"--time", "a time limit is --pod-deadline 1h, or for all pods of the Job together --deadline 1h"},
		{"--priority --priority-class --qos --nice", "the priority is the priorityClassName of a pod in a file (-f); jobctl prioritize jobs/NAME puts a Job first"},
		{"--partition", "there is one machine, and nothing to choose: leave it out"},
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

// flagMeant returns the name of the flag that is meant by one that a command does not have; "" if none comes close.
func flagMeant(flags *pflag.FlagSet, text string) string {
	wrong, ok := strings.CutPrefix(text, "unknown flag: --")
	if !ok {
		return ""
	}
	best, least := "", max(1, len(wrong)/4)+1
	flags.VisitAll(func(f *pflag.Flag) {
		if d := distance(f.Name, wrong); d < least && !f.Hidden {
			best, least = f.Name, d
		}
	})
	return best
}
