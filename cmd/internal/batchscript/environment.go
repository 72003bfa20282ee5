package batchscript

import (
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// field is a variable with a field of the pod.
func field(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
}

// jobNamePath is where a pod has the name of its Job.
const jobNamePath = "metadata.labels['" + batchv1.JobNameLabel + "']"

// Environment returns the variables that the batch system would set, and which Command does not set. The id of a Job is its name.
func (s *Script) Environment(submitDir string) (all []corev1.EnvVar) {
	set := func(name, value string) { all = append(all, corev1.EnvVar{Name: name, Value: literally(value)}) }
	count := func(name string, n int64) {
		if n > 0 {
			set(name, strconv.FormatInt(n, 10))
		}
	}
	switch s.System {
	case Slurm:
		if s.Array == nil {
			all = append(all, field("SLURM_JOB_ID", jobNamePath), field("SLURM_JOBID", jobNamePath))
		} else {
			n, least, greatest := s.Array.Tasks()
			all = append(all, field("SLURM_ARRAY_JOB_ID", jobNamePath))
			set("SLURM_ARRAY_TASK_COUNT", strconv.FormatInt(n, 10))
			set("SLURM_ARRAY_TASK_MIN", strconv.FormatInt(least, 10))
			set("SLURM_ARRAY_TASK_MAX", strconv.FormatInt(greatest, 10))
			set("SLURM_ARRAY_TASK_STEP", strconv.FormatInt(s.Array.Ranges[0].Step, 10))
		}
		set("SLURM_JOB_NAME", s.title())
		set("SLURM_SUBMIT_DIR", submitDir)
		count("SLURM_CPUS_PER_TASK", s.CPUs)
		count("SLURM_CPUS_ON_NODE", s.CPUs)
		count("SLURM_JOB_CPUS_PER_NODE", s.CPUs)
		if s.MiBPerCPU > 0 {
			count("SLURM_MEM_PER_CPU", s.MiBPerCPU)
		} else {
			count("SLURM_MEM_PER_NODE", s.MiB)
		}
		count("SLURM_GPUS_ON_NODE", s.GPUs)
		for _, name := range []string{"SLURM_NTASKS", "SLURM_NPROCS", "SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_TASKS_PER_NODE"} {
			set(name, "1")
		}
		for _, name := range []string{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"} {
			set(name, "0")
		}
		all = append(all, field("SLURMD_NODENAME", "spec.nodeName"), field("SLURM_JOB_NODELIST", "spec.nodeName"))
	case PBS:
		if s.Array == nil {
			all = append(all, field("PBS_JOBID", jobNamePath))
		} else {
			all = append(all, field("PBS_ARRAY_ID", jobNamePath))
		}
		set("PBS_JOBNAME", s.title())
		set("PBS_O_WORKDIR", submitDir)
		set("PBS_ENVIRONMENT", "PBS_BATCH")
		count("NCPUS", s.CPUs)
		count("OMP_NUM_THREADS", s.CPUs)
		count("PBS_NUM_PPN", s.CPUs)
		count("PBS_NGPUS", s.GPUs)
	}
	return all
}

// literally returns what a variable or an argument of a container has to be so that its value is this text: $(NAME) in it would be
// replaced by a variable, and $$ by $.
func literally(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// title is the name of the script's job: that of its file, unless a line says otherwise.
func (s *Script) title() string {
	if s.JobName != "" {
		return s.JobName
	}
	return s.Name
}

// Command returns the command of a container that has the script at a path: the script itself, which its first line says how to run.
// An array, and files for its output, take a shell before it, which the image then has to have.
func (s *Script) Command(path string, args []string) ([]string, error) {
	var shell strings.Builder
	if s.Array != nil {
		shell.WriteString("i=$JOB_COMPLETION_INDEX\nfor r in")
		for _, r := range s.Array.Ranges {
			fmt.Fprintf(&shell, " %d:%d:%d", r.First, r.Step, r.Count)
		}
		shell.WriteString("\ndo n=${r##*:}; [ \"$i\" -lt \"$n\" ] && break; i=$((i - n)); done\ns=${r#*:}\nt=$((${r%%:*} + i * ${s%%:*}))\n")
		if s.System == PBS {
			shell.WriteString("export PBS_ARRAY_INDEX=$t PBS_ARRAYID=$t PBS_JOBID=\"$PBS_ARRAY_ID[$t]\"\n")
		} else {
			shell.WriteString("export SLURM_ARRAY_TASK_ID=$t SLURM_JOB_ID=\"${SLURM_ARRAY_JOB_ID}_$t\" SLURM_JOBID=\"${SLURM_ARRAY_JOB_ID}_$t\"\n")
		}
	}
	if s.Output != nil || s.Error != nil {
		to := ">"
		if s.Append {
			to = ">>"
		}
		shell.WriteString("exec")
		for _, f := range []struct {
			file   *File
			number string
		}{{s.Output, ""}, {s.Error, "2"}} {
			switch {
			case f.file == nil:
			case f.number == "2" && f.file == s.Output:
				shell.WriteString(" 2>&1")
			default:
				word, err := s.Shell(f.file)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", f.file.At, err)
				}
				shell.WriteString(" " + f.number + to + word)
			}
		}
		shell.WriteString(" || exit\n")
	}
	run := []string{path}
	for _, arg := range args {
		run = append(run, literally(arg))
	}
	if shell.Len() == 0 {
		return run, nil
	}
	return append([]string{"/bin/sh", "-c", shell.String() + `exec "$0" "$@"`}, run...), nil
}
