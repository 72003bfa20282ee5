package batchscript

import (
	"fmt"
	"io"
	"strings"
)

// row is a word of a batch system, and what it is here.
type row struct{ theirs, ours string }

var commandRows = []row{
	{"sbatch SCRIPT, qsub SCRIPT", "jobctl submit --image IMAGE SCRIPT, or on the machine itself jobctl submit --host SCRIPT; with --detach it does not follow the Job"},
	{"sbatch --wrap 'COMMAND'", "jobctl submit --image IMAGE -- sh -c 'COMMAND'"},
	{"srun COMMAND", "jobctl submit --image IMAGE -- COMMAND"},
	{"srun --pty bash, qsub -I", "jobctl submit -it --image IMAGE -- bash"},
	{"squeue, qstat", "jobctl get jobs -o wide; jobctl watch"},
	{"squeue --start", "jobctl why jobs/NAME"},
	{"scontrol show job ID, qstat -f", "jobctl describe jobs/NAME; jobctl why jobs/NAME"},
	{"scontrol hold, release; qhold, qrls", "jobctl suspend, resume jobs/NAME"},
	{"scontrol suspend, resume ID", "jobctl pause, continue jobs/NAME"},
	{"scontrol top ID", "jobctl prioritize jobs/NAME"},
	{"scontrol requeue ID", "jobctl retry jobs/NAME, of a Job that has failed: what succeeded is kept"},
	{"scontrol update", "jobctl edit jobs/NAME"},
	{"scancel ID, qdel", "jobctl delete jobs/NAME"},
	{"sacct, seff", "jobctl history; jobctl history jobs/NAME"},
	{"sstat", "jobctl top pods"},
	{"sattach, tail -f slurm-ID.out", "jobctl logs -f jobs/NAME; jobctl follow jobs/NAME"},
	{"sinfo, pbsnodes", "jobctl get nodes; jobctl describe nodes; jobctl top --gpus"},
	{"sshare, sprio", "jobctl top --shares; jobctl why jobs/NAME"},
	{"scontrol update nodename=.. state=drain", "jobctl cordon NODE; jobctl drain NODE"},
	{"scrontab", "a CronJob: jobctl create cronjob"},
}

var stateRows = []row{
	{"PENDING (PD), Q", "Running with pods that are Pending; the column QUEUE has the place, jobctl why the reason"},
	{"PENDING (JobHeldUser), H", "Suspended"},
	{"PENDING (Dependency)", "After:NAME, and jobctl why says for what"},
	{"PENDING (BeginTime), W", "At:TIME, by jobd.dev/start-at"},
	{"CONFIGURING (CF)", "a pod in ContainerCreating"},
	{"RUNNING (R)", "Running, with pods that are Running"},
	{"SUSPENDED (S)", "Running with the condition Paused, by jobctl pause; Suspended ends the pods, which start anew"},
	{"COMPLETING (CG), E", "a pod that is Terminating"},
	{"COMPLETED (CD), C", "Complete"},
	{"FAILED (F)", "Failed (BackoffLimitExceeded, FailedIndexes)"},
	{"OUT_OF_MEMORY (OOM)", "a container that is OOMKilled"},
	{"TIMEOUT (TO)", "a pod or a Job with DeadlineExceeded"},
	{"CANCELLED (CA)", "deleted: jobctl history still has it"},
	{"PREEMPTED (PR)", "a pod with the condition DisruptionTarget"},
}

var environmentRows = []row{
	{"SLURM_JOB_ID, PBS_JOBID", "the name of the Job; in an array NAME_TASK, NAME[TASK]"},
	{"SLURM_ARRAY_JOB_ID, PBS_ARRAY_ID", "the name of the Job"},
	{"SLURM_ARRAY_TASK_ID, PBS_ARRAY_INDEX, PBS_ARRAYID", "the task; JOB_COMPLETION_INDEX counts the tasks from 0"},
	{"SLURM_ARRAY_TASK_COUNT, _MIN, _MAX, _STEP", "as in Slurm"},
	{"SLURM_JOB_NAME, PBS_JOBNAME", "what --job-name or -N says, or the name of the file"},
	{"SLURM_CPUS_PER_TASK, SLURM_CPUS_ON_NODE, NCPUS", "the CPUs that are asked for, or 1"},
	{"SLURM_MEM_PER_NODE, SLURM_MEM_PER_CPU", "the memory that is asked for, in MiB"},
	{"SLURM_GPUS_ON_NODE, PBS_NGPUS", "the GPUs that are asked for"},
	{"SLURM_SUBMIT_DIR, PBS_O_WORKDIR", "where jobctl was run; in the container only if --volume mounts it there"},
	{"SLURM_NTASKS, SLURM_NNODES", "1"},
	{"SLURM_PROCID, SLURM_LOCALID, SLURM_NODEID", "0"},
	{"SLURMD_NODENAME, SLURM_JOB_NODELIST", "the node"},
	{"SLURM_TMPDIR, TMPDIR", "not set: /tmp is the container's own"},
}

func optionRows(table []option, followed bool) (all []row) {
	for i := range table {
		o := &table[i]
		if (o.read != nil) != followed {
			continue
		}
		name := o.name()
		if o.long != "" && o.short != "" {
			name += ", -" + o.short
		}
		all = append(all, row{name, o.ours})
	}
	return all
}

// Explain writes a table from the words of Slurm and PBS to those of jobd.
func Explain(w io.Writer) error {
	var out strings.Builder
	for i, section := range []struct {
		title string
		rows  []row
	}{
		{"COMMANDS", commandRows},
		{"LINES OF #SBATCH", optionRows(slurmOptions(), true)},
		{"LINES OF #PBS", optionRows(pbsOptions(), true)},
		{"STATES", stateRows},
		{"VARIABLES", environmentRows},
		{"OPTIONS OF #SBATCH THAT CANNOT BE FOLLOWED, and what to do instead (--ignore-directive NAME leaves one out)", optionRows(slurmOptions(), false)},
		{"OPTIONS OF #PBS THAT CANNOT BE FOLLOWED", optionRows(pbsOptions(), false)},
	} {
		if i > 0 {
			out.WriteString("\n")
		}
		out.WriteString(section.title + ":\n")
		width := 0
		for _, r := range section.rows {
			if len(r.theirs) <= 40 {
				width = max(width, len(r.theirs))
			}
		}
		for _, r := range section.rows {
			if len(r.theirs) > width {
				fmt.Fprintf(&out, "  %s\n  %-*s  %s\n", r.theirs, width, "", r.ours)
				continue
			}
			fmt.Fprintf(&out, "  %-*s  %s\n", width, r.theirs, r.ours)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
