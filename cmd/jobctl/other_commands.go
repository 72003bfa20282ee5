package main

import "slices"

// otherCommand returns what does here what a command of docker, of a batch system or of systemd does, which people type out of habit; "" for
// all other words.
func otherCommand(name string) string {
	for _, c := range []struct {
		names []string
		help  string
	}{
		{
			[]string{"ps", "ls", "list", "jobs", "status", "queue", "squeue", "qstat", "bjobs", "container", "containers"},
			`"jobctl get jobs" lists Jobs, "jobctl get pods" their pods, and "jobctl watch" shows them as they run`,
		},
		{
			[]string{"kill", "stop", "rm", "cancel", "scancel", "qdel", "bkill", "remove", "abort"},
			`"jobctl delete jobs/NAME" ends a Job and removes it; "jobctl suspend jobs/NAME" ends its pods and keeps it`,
		},
		{
			[]string{"sbatch", "qsub", "bsub", "srun", "salloc", "enqueue"},
			`"jobctl submit SCRIPT" takes a batch script, with its #SBATCH or #PBS lines, and "jobctl submit --image IMAGE -- COMMAND" a command`,
		},
		{
			[]string{"start", "restart", "rerun", "requeue"},
			`"jobctl retry jobs/NAME" runs again what failed; "jobctl resume jobs/NAME" lets a suspended Job run`,
		},
		{[]string{"images", "pull", "load", "import", "rmi"}, `images are for "jobctl image": list, pull, import, remove`},
		{[]string{"build", "buildx"}, `"docker build" or "buildah" makes images; "jobctl image import docker://IMAGE" takes one from docker here`},
		{[]string{"inspect", "show", "cat"}, `"jobctl get jobs/NAME -o yaml" shows all of a Job, and "jobctl describe jobs/NAME" most of it`},
		{[]string{"sacct", "accounting"}, `"jobctl history" lists Jobs that have ended`},
		{[]string{"info", "sinfo", "pbsnodes", "nodes"}, `"jobctl describe nodes" shows this machine, and "jobctl df" who has what on its disk`},
		{[]string{"log", "tail"}, `"jobctl logs jobs/NAME" prints what the pods of a Job have written`},
		{
			[]string{"prune", "gc", "system"},
			`Jobs that have ended go by themselves with --ttl (ttlSecondsAfterFinished), and images that nobody uses when the disk fills`,
		},
		{[]string{"login"}, `a Secret has the password of a registry, and imagePullSecrets names it: jobctl create secret docker-registry --help`},
		{[]string{"crontab", "cron", "schedule"}, `jobctl create cronjob NAME --image IMAGE --schedule '0 3 * * *' -- COMMAND`},
	} {
		if slices.Contains(c.names, name) {
			return c.help
		}
	}
	return ""
}
