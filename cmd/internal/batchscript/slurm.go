package batchscript

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/jobd/jobd/cmd/internal/startat"
)

// What is said of options that several have.
const (
	oneMachine = "there is one machine, and nothing to choose: leave it out"
	oneTask    = "a pod is one task: make it an array, or use --cpus-per-task for threads"
	noAccounts = "nobody is charged: leave it out; a Job belongs to its namespace, which -n chooses"
	noMail     = "the annotation jobd.dev/notify says who is told of a Job, by mail or otherwise (docs/notices.md)"
	noBinding  = "the kernel places the processes: leave it out"
)

// slurmOptions are the options of sbatch, those that can be followed first.
func slurmOptions() []option {
	return append([]option{
		{"job-name", "J", always, func(r *reader, v string) error { r.JobName = v; return nil },
			"the name of the Job, with a suffix of its own; --name names it exactly"},
		{"time", "t", always, func(r *reader, v string) (err error) { r.Time, err = limit(v); return err },
			"--pod-deadline: how long each pod may run, from its start"},
		{"cpus-per-task", "c", always, func(r *reader, v string) (err error) { r.CPUs, err = number(v); return err },
			"--cpu: what the container requests, and its limit"},
		{"mem", "", always, func(r *reader, v string) (err error) {
			r.memory = r.at("--mem")
			r.MiB, err = mebibytes(v, "M")
			return err
		}, "--memory: what the container requests, and its limit"},
		{"mem-per-cpu", "", always, func(r *reader, v string) (err error) {
			r.memory = r.at("--mem-per-cpu")
			r.MiBPerCPU, err = mebibytes(v, "M")
			return err
		}, "--memory, for all CPUs"},
		{"gpus", "G", always, gpus, "limits of nvidia.com/gpu"},
		{"gpus-per-node", "", always, gpus, "limits of nvidia.com/gpu"},
		{"gpus-per-task", "", always, gpus, "limits of nvidia.com/gpu"},
		{"gres", "", always, gres, "limits of nvidia.com/gpu, from gpu:N"},
		{"array", "a", always, func(r *reader, v string) (err error) { r.Array, err = array(v); return err },
			"an Indexed Job, whose indexes count from 0: completions, and parallelism for %LIMIT"},
		{"dependency", "d", always, func(r *reader, v string) (err error) { r.After, err = dependencies(v); return err },
			"jobd.dev/after: NAME:ok, NAME:any or NAME:failed for afterok, afterany and afternotok"},
		{"begin", "b", always, func(r *reader, v string) error { return r.begin(v, startat.Slurm) },
			"--at: jobd.dev/start-at, before which the Job does not start"},
		{"output", "o", always, func(r *reader, v string) error { r.Output = &File{v, r.at("--output")}; return nil },
			"a file in a mounted directory; without it, jobctl logs keeps what is printed"},
		{"error", "e", always, func(r *reader, v string) error { r.Error = &File{v, r.at("--error")}; return nil },
			"a file in a mounted directory; without it, jobctl logs keeps what is printed"},
		{"open-mode", "", always, func(r *reader, v string) error {
			if v != "append" && v != "truncate" {
				return fmt.Errorf("%q is neither append nor truncate", v)
			}
			r.Append = v == "append"
			return nil
		}, "how the files of --output and --error are opened"},
		{"chdir", "D", always, func(r *reader, v string) error { return r.directory(v, &r.Dir) },
			"--workdir: the working directory in the container"},
		{"export", "", always, export, "--env, for the variables that it names"},
		{"comment", "", always, func(r *reader, v string) error { r.Comment = v; return nil },
			"the annotation kubernetes.io/description"},
		{"nodes", "N", always, func(r *reader, v string) error { return one(v, "there is one machine") },
			"1: there is one machine"},
		{"ntasks", "n", always, func(r *reader, v string) error { return one(v, oneTask) },
			"1: " + oneTask},
		{"ntasks-per-node", "", always, func(r *reader, v string) error { return one(v, oneTask) },
			"1: " + oneTask},
		{"container-image", "", always, func(r *reader, v string) error {
			r.Image = strings.Replace(strings.TrimPrefix(v, "docker://"), "#", "/", 1)
			return nil
		}, "--image (an option of the plugin Pyxis)"},
		{"container-mounts", "", always, func(r *reader, v string) error { r.Mounts = strings.Split(v, ","); return nil },
			"--volume (an option of the plugin Pyxis)"},
		{"container-workdir", "", always, func(r *reader, v string) error { return r.directory(v, &r.ContainerDir) },
			"--workdir (an option of the plugin Pyxis)"},
		{"no-requeue", "", never, func(*reader, string) error { return nil }, "as it is without --backoff-limit"},
		{"wait", "W", never, func(*reader, string) error { return nil }, "as it is without --detach"},
	}, refusedBySlurm()...)
}

func refusedBySlurm() (all []option) {
	for _, o := range []struct{ long, short, ours string }{
		{"account", "A", noAccounts},
		{"partition", "p", oneMachine},
		{"qos", "q", "a PriorityClass, in a manifest, says what comes first; jobctl prioritize moves a Job up"},
		{"mail-type", "", noMail},
		{"mail-user", "", noMail},
		{"nodelist", "w", oneMachine},
		{"nodefile", "F", oneMachine},
		{"exclude", "x", oneMachine},
		{"constraint", "C", oneMachine},
		{"prefer", "", oneMachine},
		{"clusters", "M", "there is one machine; --context chooses a cluster"},
		{"reservation", "", oneMachine},
		{"switches", "", oneMachine},
		{"network", "", oneMachine},
		{"extra-node-info", "B", noBinding},
		{"sockets-per-node", "", noBinding},
		{"cores-per-socket", "", noBinding},
		{"threads-per-core", "", noBinding},
		{"core-spec", "S", noBinding},
		{"thread-spec", "", noBinding},
		{"hint", "", noBinding},
		{"distribution", "m", noBinding},
		{"mem-bind", "", noBinding},
		{"cpu-freq", "", noBinding},
		{"gpu-bind", "", noBinding},
		{"gpu-freq", "", noBinding},
		{"gres-flags", "", noBinding},
		{"mincpus", "", "use --cpus-per-task"},
		{"cpus-per-gpu", "", "use --cpus-per-task"},
		{"mem-per-gpu", "", "use --mem"},
		{"ntasks-per-core", "", oneTask},
		{"ntasks-per-socket", "", oneTask},
		{"ntasks-per-gpu", "", oneTask},
		{"licenses", "L", "an extended resource in a manifest is counted likewise, see Devices in docs/scheduling.md"},
		{"tmp", "", "request ephemeral-storage in a manifest"},
		{"bb", "", "mount what is needed with --volume"},
		{"bbf", "", "mount what is needed with --volume"},
		{"input", "i", "let the script read the file, from a directory that --volume mounts"},
		{"signal", "", "at the end of its time a pod gets SIGTERM, and SIGKILL terminationGracePeriodSeconds later: trap that"},
		{"time-min", "", "a Job gets all of its time: use --time"},
		{"deadline", "", "--deadline DURATION limits the Job as a whole, from its start"},
		{"nice", "", "a PriorityClass, in a manifest, says what comes first"},
		{"priority", "", "a PriorityClass, in a manifest, says what comes first"},
		{"profile", "", "jobctl history shows what a Job has used"},
		{"acctg-freq", "", "jobctl history shows what a Job has used"},
		{"propagate", "", "limits of the shell are not taken over: set them in the script, by ulimit"},
		{"get-user-env", "", "name the variables that are needed: --export=A,B"},
		{"uid", "", "set securityContext.runAsUser in a manifest"},
		{"gid", "", "set securityContext.runAsGroup in a manifest"},
		{"kill-on-invalid-dep", "", "jobctl why says that a need cannot be met any more: delete the Job, or retry what failed"},
		{"wckey", "", noAccounts},
		{"mcs-label", "", noAccounts},
		{"power", "", oneMachine},
		{"container", "", "name an image by --image"},
		{"container-save", "", "write what is to be kept to a directory that --volume mounts"},
		{"container-name", "", "each pod has a container of its own: leave it out"},
	} {
		all = append(all, option{o.long, o.short, always, nil, o.ours})
	}
	for _, o := range []struct{ long, short, ours string }{
		{"exclusive", "", "ask for all CPUs, as kubectl get nodes shows them, by --cpus-per-task"},
		{"oversubscribe", "s", "pods share the machine as their requests allow: leave it out"},
	} {
		all = append(all, option{o.long, o.short, maybe, nil, o.ours})
	}
	for _, o := range []struct{ long, short, ours string }{
		{"hold", "H", "jobctl submit --detach and jobctl suspend jobs/NAME hold it; jobctl resume lets it go"},
		{"requeue", "", "use --backoff-limit N: how many pods may fail"},
		{"contiguous", "", oneMachine},
		{"spread-job", "", oneMachine},
		{"use-min-nodes", "", oneMachine},
		{"reboot", "", oneMachine},
		{"no-kill", "k", oneMachine},
		{"overcommit", "O", "use --cpu with a fraction, such as 500m"},
		{"test-only", "", "use --dry-run=server"},
		{"parsable", "", "jobctl submit --detach -o name prints the name alone"},
		{"quiet", "Q", "use --progress=quiet"},
		{"verbose", "v", "use --progress=plain"},
		{"ignore-pbs", "", "lines of #PBS are ignored beside those of #SBATCH: leave it out"},
	} {
		all = append(all, option{o.long, o.short, never, nil, o.ours})
	}
	return append(all,
		option{"wait-all-nodes", "", always, nil, oneMachine},
		option{"wrap", "", always, nil, "the command line has it: jobctl submit --image IMAGE -- sh -c COMMAND"})
}

// one refuses any other number than 1, and ranges of others.
func one(text, why string) error {
	if least, most, ranged := strings.Cut(text, "-"); ranged && least == most || text == "1" {
		if text == "1" || least == "1" {
			return nil
		}
	}
	return fmt.Errorf("%s cannot be followed: %s", text, why)
}

// directory takes in the path of a directory in the container.
func (r *reader) directory(path string, to *string) error {
	if !strings.HasPrefix(path, "/") {
		return fmt.Errorf("%q is not an absolute path of the container", path)
	}
	*to = path
	return nil
}

// gpus reads [TYPE:]N.
func gpus(r *reader, value string) (err error) {
	kind, n, typed := strings.Cut(value, ":")
	if !typed {
		kind, n = "", value
	}
	if r.GPUs, err = number(n); err != nil {
		return err
	}
	if kind != "" {
		r.note("the kind of GPU %q is not looked at: all are those of this machine", kind)
	}
	return nil
}

// gres reads gpu[:TYPE]:N.
func gres(r *reader, value string) error {
	name, rest, _ := strings.Cut(value, ":")
	if name != "gpu" || strings.Contains(value, ",") {
		return errors.New("only gpu[:TYPE]:N can be followed: request other devices in a manifest, as resources of their kind")
	}
	return gpus(r, cmp.Or(rest, "1"))
}

// export reads which variables the script is given.
func export(r *reader, value string) (err error) {
	switch strings.ToUpper(value) {
	case "NONE", "NIL":
		return nil
	}
	for part := range strings.SplitSeq(value, ",") {
		if strings.EqualFold(part, "ALL") {
			return errors.New("ALL cannot be followed: a container has the variables of its image; name those that the script needs")
		}
	}
	r.Env, err = variables(value)
	return err
}

var pattern = regexp.MustCompile(`%(%|[0-9]*[A-Za-z])`)

// Shell returns the name of a file as a word of the shell, in which Slurm's patterns are variables.
func (s *Script) Shell(f *File) (string, error) {
	var word strings.Builder
	literal := func(text string) {
		if text != "" {
			word.WriteString("'" + literally(strings.ReplaceAll(text, "'", `'\''`)) + "'")
		}
	}
	if f.Pattern == "" {
		return "", errors.New("it names no file")
	}
	if s.System != Slurm {
		literal(f.Pattern)
		return word.String(), nil
	}
	at := 0
	for _, found := range pattern.FindAllStringIndex(f.Pattern, -1) {
		literal(f.Pattern[at:found[0]])
		at = found[1]
		switch what := f.Pattern[found[0]+1 : at]; what {
		case "%":
			literal("%")
		case "j", "J":
			word.WriteString(`"$SLURM_JOB_ID"`)
		case "x":
			word.WriteString(`"$SLURM_JOB_NAME"`)
		case "N":
			word.WriteString(`"$SLURMD_NODENAME"`)
		case "t", "n":
			literal("0")
		case "A", "a":
			if s.Array == nil {
				return "", fmt.Errorf("%%%s is for arrays: use %%j", what)
			}
			word.WriteString(map[string]string{"A": `"$SLURM_ARRAY_JOB_ID"`, "a": `"$SLURM_ARRAY_TASK_ID"`}[what])
		default:
			return "", fmt.Errorf("%%%s cannot be followed: %%j, %%x, %%A, %%a and %%N can", what)
		}
	}
	literal(f.Pattern[at:])
	return word.String(), nil
}
