package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Scripts for sbatch and qsub: an array whose tasks write files, one of which fails; one that is run by another interpreter than
// a shell; and what is refused.
func TestBatchScripts(t *testing.T) {
	t.Parallel()
	d, dir := start(t), t.TempDir()
	script := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	array := script("sweep.sh", `#!/bin/sh
#SBATCH --job-name=sweep --time=10:00
#SBATCH --cpus-per-task=1 --mem=64M      # of each task
#SBATCH --array=3-12:3,100%2
#SBATCH --output=%x_%a.out
echo "task $SLURM_ARRAY_TASK_ID of $SLURM_ARRAY_JOB_ID, $SLURM_CPUS_PER_TASK CPU: $*"
echo "in $PWD" >&2
[ "$SLURM_ARRAY_TASK_ID" != 9 ] || exit 9
`)
	run := d.jobctlWith("submit", "--image", "busybox:1.36", "--volume", dir+":"+dir, "--workdir", dir, "--name", "sweep", array, "a", "--", "--lr $(x)")
	out, errOut, code := exitOf(t, run, "")
	if code != 9 || out != "" {
		t.Errorf("exit code %d\n%s%s", code, out, errOut)
	}
	for _, task := range []int{3, 6, 9, 12, 100} {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("sweep_%d.out", task)))
		if want := fmt.Sprintf("task %d of sweep, 1 CPU: a --lr $(x)\nin %s\n", task, dir); err != nil || string(text) != want {
			t.Errorf("task %d: %v\n got %q\nwant %q", task, err, text, want)
		}
	}
	job := d.failed("sweep", "FailedIndexes")
	if job.Status.CompletedIndexes != "0,1,3,4" || *job.Status.FailedIndexes != "2" || *job.Spec.Parallelism != 2 {
		t.Errorf("%+v", job.Status)
	}
	// Where an index is shown, its task is beside it.
	saw := func(what, text string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%s lacks %q:\n%s", what, w, text)
			}
		}
	}
	saw("the lines of submit", errOut, " (index 0: task=3)", " (index 2: task=9)")
	saw("why", d.jobctl("why", "jobs/sweep"), "this pod for index 2 (task=9) failed")
	saw("watch", d.jobctl("watch", "jobs/sweep"), "(task=9)")
	saw("results", d.jobctl("results", "jobs/sweep"), "INDEX   TASK   RESULT")
	saw("the history", d.jobctl("history", "jobs/sweep", "--pods"), "VALUES", "task=100")
	saw("the picture", d.jobctl("get", "--raw", "/apis/batch/v1/namespaces/default/jobs/sweep/picture"), `"values":["task=3","task=6",`)
	saw("the Job", d.jobctl("get", "jobs/sweep", "-o", "yaml"), `jobd.dev/array: 3-12:3,100`)
	if out, err := d.try("jobctl", nil, "annotate", "--overwrite", "jobs/sweep", "jobd.dev/array=1-5"); err == nil ||
		!strings.Contains(out, "metadata.annotations[jobd.dev/array]: Invalid value: \"1-5\": field is immutable") {
		t.Errorf("the tasks can be changed: %v, %s", err, out)
	}
	// What has failed is run again, as of any Job, also by its task.
	if out, err := d.try("jobctl", nil, "retry", "jobs/sweep", "--param", "task=2"); err == nil || !strings.Contains(out, "no index has task=2") {
		t.Errorf("%v, %s", err, out)
	}
	saw("retry", d.jobctl("retry", "jobs/sweep", "--param", "task=9"), "attempt 2")
	d.failed("sweep", "FailedIndexes")

	pbs := script("two.sh", "#!/bin/sh\n#PBS -N two -l select=1:ncpus=1:mem=64mb,walltime=00:10:00 -J 1-2 -v COLOUR=blue\n"+
		"echo \"$PBS_ARRAY_INDEX of $PBS_JOBNAME is $COLOUR\"\n")
	out, errOut, code = exitOf(t, d.jobctlWith("submit", "--name", "two", "--image", "busybox:1.36", pbs), "")
	saw("the log of the Job", d.jobctl("logs", "jobs/two", "--prefix"), " index=0(task=1)", " index=1(task=2)")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	slices.Sort(lines)
	if code != 0 || strings.Join(lines, "; ") != "1 of two is blue; 2 of two is blue" {
		t.Errorf("%d: %s%s", code, out, errOut)
	}

	// By its first line, from the standard input.
	const printed = "#!/bin/cat\nprinted by cat\n"
	if out, errOut, code := exitOf(t, d.jobctlWith("submit", "--image", "busybox:1.36", "-"), printed); code != 0 || out != printed {
		t.Errorf("%d: %s%s", code, out, errOut)
	}

	// Its time is over.
	late := script("late.sh", "#!/bin/sh\n#SBATCH --time=0:02\ntrap 'exit 1' TERM\nsleep 1000 &\nwait\n")
	if _, errOut, code := exitOf(t, d.jobctlWith("submit", "--image", "busybox:1.36", late), ""); code != 124 {
		t.Errorf("%d: %s", code, errOut)
	}

	other := script("other.sh", "#!/bin/sh\n#SBATCH --partition=gpu\n#SBATCH --mail-type=END\nsrun echo ran\n")
	_, errOut, code = exitOf(t, d.jobctlWith("submit", "--image", "busybox:1.36", other), "")
	if code != 1 || !strings.Contains(errOut, "error: other.sh:2: #SBATCH --partition: there is one machine") ||
		!strings.Contains(errOut, "other.sh:3: #SBATCH --mail-type: ") {
		t.Errorf("%d: %s", code, errOut)
	}
	_, errOut, code = exitOf(t, d.jobctlWith("submit", "--image", "busybox:1.36", "--ignore-directive", "partition,mail-type", other), "")
	if code != 127 || !strings.Contains(errOut, "note: other.sh:4: srun: ") {
		t.Errorf("%d: %s", code, errOut)
	}
	if out := d.jobctl("explain", "slurm"); !strings.Contains(out, "jobctl submit --image IMAGE SCRIPT") {
		t.Errorf("%s", out)
	}
}
