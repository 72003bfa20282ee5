package batchscript

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jobd/jobd/cmd/internal/startat"
)

// pbsOptions are the options of qsub, of PBS Pro and of Torque, those that can be followed first.
func pbsOptions() []option {
	all := []option{
		{"", "N", always, func(r *reader, v string) error { r.JobName = v; return nil },
			"the name of the Job, with a suffix of its own; --name names it exactly"},
		{"", "l", always, resources, "walltime, mem, ncpus, ngpus, nodes=1:ppn=N, select=1:ncpus=N:mem=M: time, memory, CPUs and GPUs"},
		{"", "J", always, func(r *reader, v string) (err error) { r.Array, err = array(v); return err },
			"an Indexed Job: completions, and parallelism for %LIMIT"},
		{"", "t", always, func(r *reader, v string) (err error) { r.Array, err = array(v); return err },
			"an Indexed Job, as -J (Torque)"},
		{"", "W", always, attributes, "depend=afterok:NAME and the like: jobd.dev/after"},
		{"", "a", always, func(r *reader, v string) error { return r.begin(v, startat.PBS) },
			"--at: jobd.dev/start-at, before which the Job does not start"},
		{"", "o", always, func(r *reader, v string) error { return pbsFile(r, "-o", v, &r.Output) },
			"a file in a mounted directory; without it, jobctl logs keeps what is printed"},
		{"", "e", always, func(r *reader, v string) error { return pbsFile(r, "-e", v, &r.Error) },
			"a file in a mounted directory; without it, jobctl logs keeps what is printed"},
		{"", "j", always, func(r *reader, v string) error {
			switch v {
			case "oe":
				r.join = "oe"
			case "n":
				r.join = ""
			default:
				return fmt.Errorf("%q cannot be followed: oe, which joins the error output to the output, or n", v)
			}
			return nil
		}, "oe: both outputs go to the file of -o"},
		{"", "d", always, func(r *reader, v string) error { return r.directory(v, &r.Dir) },
			"--workdir: the working directory in the container (Torque)"},
		{"", "w", always, func(r *reader, v string) error { return r.directory(v, &r.Dir) },
			"--workdir: the working directory in the container (Torque)"},
		{"", "v", always, func(r *reader, v string) (err error) { r.Env, err = variables(v); return err }, "--env"},
		{"", "r", always, func(_ *reader, v string) error {
			if v != "n" {
				return errors.New("use --backoff-limit N: how many pods may fail")
			}
			return nil
		}, "n: as it is without --backoff-limit"},
	}
	for _, o := range []struct{ short, ours string }{
		{"A", noAccounts}, {"P", noAccounts}, {"q", oneMachine},
		{"m", noMail}, {"M", noMail}, {"p", "a PriorityClass, in a manifest, says what comes first"}, {"S", "the first line of the script says what runs it"},
		{"k", "jobctl logs keeps what is printed"}, {"R", "write to files in a directory that --volume mounts"}, {"c", "programs are not saved and restored"},
		{"C", "lines begin with #PBS"}, {"u", "set securityContext.runAsUser in a manifest"}, {"D", "use --volume and --workdir"},
	} {
		all = append(all, option{"", o.short, always, nil, o.ours})
	}
	for _, o := range []struct{ short, ours string }{
		{"h", "jobctl submit --detach and jobctl suspend jobs/NAME hold it; jobctl resume lets it go"},
		{"V", "a container has the variables of its image; name those that the script needs: -v A,B"}, {"I", "use jobctl run -it"}, {"X", "use jobctl run -it"},
		{"z", "jobctl submit --detach -o name prints the name alone"}, {"f", "submit runs in the foreground unless --detach is given"},
	} {
		all = append(all, option{"", o.short, never, nil, o.ours})
	}
	return all
}

// pbsFile takes in a path.
func pbsFile(r *reader, option, value string, to **File) error {
	if strings.Contains(value, ":") {
		return fmt.Errorf("%q names a host: write the path alone", value)
	}
	if strings.ContainsAny(value, "$^") {
		return fmt.Errorf("%q has a variable, which cannot be followed: let the script write to that file", value)
	}
	*to = &File{value, r.at(option)}
	return nil
}

// resources reads NAME=VALUE, separated by commas.
func resources(r *reader, value string) error {
	for part := range strings.SplitSeq(value, ",") {
		name, v, _ := strings.Cut(part, "=")
		if r.isIgnored(name) {
			continue
		}
		if name == "select" || name == "nodes" {
			chunk := strings.Split(v, ":")
			if err := one(chunk[0], "there is one machine"); err != nil {
				return fmt.Errorf("%s=%w", name, err)
			}
			for _, part := range chunk[1:] {
				if err := resource(r, part, name+" "); err != nil {
					return err
				}
			}
			continue
		}
		if err := resource(r, part, ""); err != nil {
			return err
		}
	}
	return nil
}

// resource reads one of them, in a chunk of nodes if within says so.
func resource(r *reader, text, within string) (err error) {
	name, v, _ := strings.Cut(text, "=")
	if r.isIgnored(name) {
		return nil
	}
	switch name {
	case "walltime":
		r.Time, err = wallTime(v)
	case "mem", "pmem", "vmem", "pvmem":
		if name != "mem" {
			return fmt.Errorf("%s%s cannot be followed: use mem", within, name)
		}
		r.memory = r.at("-l mem")
		r.MiB, err = mebibytes(v, "b")
	case "ncpus", "ppn":
		r.CPUs, err = number(v)
	case "ngpus", "gpus":
		r.GPUs, err = number(v)
	case "mpiprocs", "ompthreads", "procs":
		err = one(v, oneTask)
	case "place":
		return fmt.Errorf("%s%s cannot be followed: %s", within, name, oneMachine)
	default:
		return fmt.Errorf("%s%s cannot be followed: walltime, mem, ncpus, ngpus, nodes=1:ppn=N and select=1:ncpus=N can", within, name)
	}
	if err != nil {
		return fmt.Errorf("%s%s: %w", within, name, err)
	}
	return nil
}

// attributes reads the attributes of -W, NAME=VALUE, separated by commas, which values have too.
func attributes(r *reader, value string) (err error) {
	var all []string
	for part := range strings.SplitSeq(value, ",") {
		if len(all) == 0 || strings.Contains(part, "=") {
			all = append(all, part)
		} else {
			all[len(all)-1] += "," + part
		}
	}
	for _, a := range all {
		name, v, _ := strings.Cut(a, "=")
		switch {
		case r.isIgnored(name):
		case name != "depend":
			return fmt.Errorf("%s cannot be followed: depend can", name)
		default:
			if r.After, err = dependencies(v); err != nil {
				return fmt.Errorf("depend: %w", err)
			}
		}
	}
	return nil
}
