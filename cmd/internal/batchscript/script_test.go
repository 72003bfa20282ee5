package batchscript

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/jobd/jobd/api/batch"
)

// now is when the scripts are read.
var now = time.Date(2026, 11, 27, 21, 30, 0, 0, time.UTC)

// show is what a script asks for, in short.
func show(s *Script) string {
	var all []string
	add := func(name string, value any) {
		if text := fmt.Sprint(value); text != "" && text != "0" && text != "0s" && text != "[]" && text != "false" {
			all = append(all, name+" "+text)
		}
	}
	add("name", s.JobName)
	add("time", s.Time)
	add("cpus", s.CPUs)
	add("MiB", s.MiB)
	add("gpus", s.GPUs)
	if s.Array != nil {
		add("array", s.Array.Ranges)
		add("limit", s.Array.Limit)
	}
	add("after", s.After)
	if !s.Begin.IsZero() {
		add("begin", s.Begin.Format(time.RFC3339))
	}
	add("dir", s.Dir)
	for _, f := range []struct {
		name string
		file *File
	}{{"output", s.Output}, {"error", s.Error}} {
		if f.file != nil {
			word, err := s.Shell(f.file)
			add(f.name, fmt.Sprint(word, err))
		}
	}
	add("append", s.Append)
	add("env", s.Env)
	add("image", s.Image)
	add("mounts", s.Mounts)
	add("in", s.ContainerDir)
	add("comment", s.Comment)
	return strings.Join(all, ", ")
}

// Each line, behind the first one, and what it asks for; or behind "error" what is said of it.
func TestLines(t *testing.T) {
	for line, want := range map[string]string{
		"#SBATCH --job-name=train -c 4":           "name train, cpus 4",
		"#SBATCH --job-name 'a b'\t-c4 # comment": "name a b, cpus 4",
		`#SBATCH -J "it is \"one\""`:              `name it is "one", cpus 1`,
		`#SBATCH -J 'a b`:                         "error s:2: #SBATCH: a ' has no end",
		`#SBATCH -J a\`:                           `error s:2: #SBATCH: a \ stands at the end of the line`,
		"#SBATCH -J":                              "error s:2: #SBATCH --job-name: lacks its value",
		"#SBATCH --job-nam=x":                     "error s:2: #SBATCH --job-nam=x: is not known; is --job-name meant?",
		"#SBATCH --no-such-thing-here":            "error s:2: #SBATCH --no-such-thing-here: is not known",
		"#SBATCH train":                           "error s:2: #SBATCH train: is not known",
		"#SBATCH --no-requeue=yes":                "error s:2: #SBATCH --no-requeue: takes no value",
		"#SBATCH --no-requeue -W":                 "cpus 1",
		"# SBATCH -c 4":                           "",
		"##SBATCH -c 4":                           "",
		"#SBATCHES -c 4":                          "",

		"#SBATCH -t 90":                         "time 1h30m0s, cpus 1",
		"#SBATCH -t 1:30":                       "time 1m30s, cpus 1",
		"#SBATCH -t 01:30:00":                   "time 1h30m0s, cpus 1",
		"#SBATCH -t 2-12":                       "time 60h0m0s, cpus 1",
		"#SBATCH -t 2-12:30":                    "time 60h30m0s, cpus 1",
		"#SBATCH -t 2-12:30:05":                 "time 60h30m5s, cpus 1",
		"#SBATCH -t UNLIMITED":                  "cpus 1",
		"#SBATCH -t 0:00":                       `error s:2: #SBATCH --time: "0:00" leaves no time to run`,
		"#SBATCH -t tomorrow":                   `error s:2: #SBATCH --time: "tomorrow" is not a time such as 30, 30:00, 8:00:00, 2-12 or 2-12:00:00`,
		"#SBATCH -t 999999999-0":                `error s:2: #SBATCH --time: "999999999-0" is longer than can be counted`,
		"#SBATCH -t 1:2:3:4":                    "error s:2: #SBATCH --time: ",
		"#SBATCH --mem 4000":                    "cpus 1, MiB 4000",
		"#SBATCH --mem=4G":                      "cpus 1, MiB 4096",
		"#SBATCH --mem=4gb":                     "cpus 1, MiB 4096",
		"#SBATCH --mem=1500K":                   "cpus 1, MiB 2",
		"#SBATCH --mem=0":                       "error s:2: #SBATCH --mem: all of the machine's memory",
		"#SBATCH --mem=4X":                      `error s:2: #SBATCH --mem: "4X" has the unit "X"`,
		"#SBATCH --mem=-4":                      `error s:2: #SBATCH --mem: "-4" is not an amount`,
		"#SBATCH --mem=9999999999T":             `error s:2: #SBATCH --mem: "9999999999T" is more than any machine has`,
		"#SBATCH -c 4 --mem-per-cpu=2G":         "cpus 4, MiB 8192",
		"#SBATCH --mem=1G --mem-per-cpu=2G":     "error s:2: #SBATCH --mem-per-cpu: the memory is given for each CPU and for all: leave one out",
		"#SBATCH -c 0":                          `error s:2: #SBATCH --cpus-per-task: "0" is not a number from 1 on`,
		"#SBATCH -N 1 -n 1 --ntasks-per-node=1": "cpus 1",
		"#SBATCH -N 1-1":                        "cpus 1",
		"#SBATCH -N 2":                          "error s:2: #SBATCH --nodes: 2 cannot be followed: there is one machine",
		"#SBATCH -N 1-4":                        "error s:2: #SBATCH --nodes: 1-4 cannot be followed: there is one machine",
		"#SBATCH --ntasks=8":                    "error s:2: #SBATCH --ntasks: 8 cannot be followed: a pod is one task",
		"#SBATCH --gres=gpu:2":                  "cpus 1, gpus 2",
		"#SBATCH --gres=gpu:a100:2":             "cpus 1, gpus 2",
		"#SBATCH --gres=gpu":                    "cpus 1, gpus 1",
		"#SBATCH --gres=fpga:1":                 "error s:2: #SBATCH --gres: only gpu[:TYPE]:N can be followed",
		"#SBATCH -G 1":                          "cpus 1, gpus 1",
		"#SBATCH --gpus=h100:x":                 `error s:2: #SBATCH --gpus: "x" is not a number from 1 on`,

		"#SBATCH --array=0-9%4":   "cpus 1, array [{0 1 10 0}], limit 4",
		"#SBATCH -a 1-7:2":        "cpus 1, array [{1 2 4 0}]",
		"#SBATCH -a 1,3,10-12":    "cpus 1, array [{1 1 1 0} {3 1 1 1} {10 1 3 2}]",
		"#SBATCH -a 0-9%0":        `error s:2: #SBATCH --array: how many run at a time: "0" is not a number from 1 on`,
		"#SBATCH -a 5-1":          `error s:2: #SBATCH --array: "5-1" goes from 5 down to 1`,
		"#SBATCH -a 1-9:0":        `error s:2: #SBATCH --array: "1-9:0" has a step of 0`,
		"#SBATCH -a 1-3,2":        `error s:2: #SBATCH --array: "1-3,2" names task 2 twice`,
		"#SBATCH -a 0-100000":     `error s:2: #SBATCH --array: "0-100000" has more than 100000 tasks`,
		"#SBATCH -a 0-999999999":  "error s:2: #SBATCH --array: ",
		"#SBATCH -a 0-":           `error s:2: #SBATCH --array: "0-" are not tasks`,
		"#SBATCH -d afterok:prep": "cpus 1, after [{prep ok}]",
		"#SBATCH -d afterok:a:b,afterany:job.batch/c,afternotok:jobs/d": "cpus 1, after [{a ok} {b ok} {c any} {d failed}]",
		"#SBATCH -d afterok:a?afterok:b":                                "error s:2: #SBATCH --dependency: ? cannot be followed",
		"#SBATCH -d singleton":                                          "error s:2: #SBATCH --dependency: singleton cannot be followed",
		"#SBATCH -d after:a+5":                                          "error s:2: #SBATCH --dependency: after cannot be followed: a Job can wait for the end of others",
		"#SBATCH -d afterok":                                            `error s:2: #SBATCH --dependency: "afterok" is not of the form`,
		"#SBATCH -d afterok:A_B":                                        `error s:2: #SBATCH --dependency: "A_B" does not name a Job of jobd`,

		"#SBATCH -o /o/%x-%j.out":                    `cpus 1, output '/o/'"$SLURM_JOB_NAME"'-'"$SLURM_JOB_ID"'.out'<nil>, error '/o/'"$SLURM_JOB_NAME"'-'"$SLURM_JOB_ID"'.out'<nil>`,
		"#SBATCH -a 1-2 -o /o/%A_%a%% -e /dev/null":  `cpus 1, array [{1 1 2 0}], output '/o/'"$SLURM_ARRAY_JOB_ID"'_'"$SLURM_ARRAY_TASK_ID"'%'<nil>, error '/dev/null'<nil>`,
		`#SBATCH -o "/o/it's \$(here)"`:              `cpus 1, output '/o/it'\''s $$(here)'<nil>, error '/o/it'\''s $$(here)'<nil>`,
		"#SBATCH -o /o/%A":                           "error s:2: #SBATCH --output: %A is for arrays: use %j",
		"#SBATCH -o /o/%4j":                          "error s:2: #SBATCH --output: %4j cannot be followed",
		"#SBATCH -o ''":                              "error s:2: #SBATCH --output: it names no file",
		"#SBATCH -o /o/x --open-mode=append":         "cpus 1, output '/o/x'<nil>, error '/o/x'<nil>, append true",
		"#SBATCH --open-mode=x":                      `error s:2: #SBATCH --open-mode: "x" is neither append nor truncate`,
		"#SBATCH -D /work --comment 'for the paper'": "cpus 1, dir /work, comment for the paper",
		"#SBATCH -D work":                            `error s:2: #SBATCH --chdir: "work" is not an absolute path`,
		"#SBATCH --export=NONE":                      "cpus 1",
		"#SBATCH --export=A,B=c":                     "cpus 1, env [A B=c]",
		"#SBATCH --export=ALL,A":                     "error s:2: #SBATCH --export: ALL cannot be followed",
		"#SBATCH --export=1A":                        `error s:2: #SBATCH --export: "1A" is not of the form`,
		"#SBATCH --partition=gpu":                    "error s:2: #SBATCH --partition: there is one machine, and nothing to choose: leave it out",
		"#SBATCH --begin=now+1hour":                  "cpus 1, begin 2026-11-27T22:30:00Z",
		"#SBATCH -b 2020-01-01":                      "cpus 1", // at once, with a note
		"#SBATCH --begin=friday":                     `error s:2: #SBATCH --begin: "friday" is not a time such as 16:00`,
		"#PBS -a 2200":                               "cpus 1, begin 2026-11-27T22:00:00Z",
		"#PBS -a 22:00":                              `error s:2: #PBS -a: "22:00" is not a time of the form`,
		"#SBATCH --exclusive -c 2":                   "error s:2: #SBATCH --exclusive: ",
		"#SBATCH --container-image=nvcr.io#nvidia/pytorch:24.01 --container-mounts=/data:/data:ro,/home:/home --container-workdir=/home": "cpus 1, " +
			"image nvcr.io/nvidia/pytorch:24.01, mounts [/data:/data:ro /home:/home], in /home",

		"#PBS -N train -l walltime=08:00:00,mem=4gb,ncpus=2": "name train, time 8h0m0s, cpus 2, MiB 4096",
		"#PBS -l nodes=1:ppn=4,walltime=90":                  "time 1m30s, cpus 4",
		"#PBS -l select=1:ncpus=8:mem=16gb:ngpus=1":          "cpus 8, MiB 16384, gpus 1",
		"#PBS -l select=1:ncpus=8:mpiprocs=1":                "cpus 8",
		"#PBS -l select=2:ncpus=8":                           "error s:2: #PBS -l: select=2 cannot be followed: there is one machine",
		"#PBS -l nodes=1:ppn=x":                              `error s:2: #PBS -l: nodes ppn: "x" is not a number from 1 on`,
		"#PBS -l place=scatter":                              "error s:2: #PBS -l: place cannot be followed: there is one machine",
		"#PBS -l software=x":                                 "error s:2: #PBS -l: software cannot be followed: walltime",
		"#PBS -l walltime=1:2:3:4:5":                         `error s:2: #PBS -l: walltime: "1:2:3:4:5" is not a time such as 08:00:00`,
		"#PBS -l walltime=1:00:00:00":                        "time 24h0m0s, cpus 1",
		"#PBS -J 1-9:2%3":                                    "cpus 1, array [{1 2 5 0}], limit 3",
		"#PBS -t 0-4":                                        "cpus 1, array [{0 1 5 0}]",
		"#PBS -W depend=afterok:a:b,afterany:c":              "cpus 1, after [{a ok} {b ok} {c any}]",
		"#PBS -W umask=022":                                  "error s:2: #PBS -W: umask cannot be followed: depend can",
		"#PBS -o /o/x -j oe":                                 "cpus 1, output '/o/x'<nil>, error '/o/x'<nil>",
		"#PBS -o /o/x":                                       "cpus 1, output '/o/x'<nil>",
		"#PBS -o host:/o/x":                                  `error s:2: #PBS -o: "host:/o/x" names a host`,
		"#PBS -o /o/$PBS_JOBID":                              `error s:2: #PBS -o: "/o/$PBS_JOBID" has a variable`,
		"#PBS -j eo":                                         `error s:2: #PBS -j: "eo" cannot be followed`,
		"#PBS -e /o/x -j oe":                                 "error s:2: #PBS -e: -j oe sends the error output to the file of -o, which is not given",
		"#PBS -v A,B=c":                                      "cpus 1, env [A B=c]",
		"#PBS -V":                                            "error s:2: #PBS -V: a container has the variables of its image",
		"#PBS -q long":                                       "error s:2: #PBS -q: there is one machine",
		"#PBS --walltime=3":                                  "error s:2: #PBS --walltime=3: is not known",
	} {
		got := ""
		if s, err := Read("s", "#!/bin/sh\n"+line+"\ntrue\n", nil, now); err != nil {
			got = "error " + err.Error()
		} else {
			got = show(s)
		}
		if got != want && !(strings.HasPrefix(want, "error ") && strings.HasPrefix(got, want)) {
			t.Errorf("%s:\n got %s\nwant %s", line, got, want)
		}
	}
}

// What is not a batch script is refused for a reason.
func TestNoBatchScript(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "s: its first line has to say what runs it",
		"echo hello":            "s: its first line has to say what runs it",
		"\ufeff#!/bin/sh\n":     "s: it begins with a byte order mark",
		"#!\n":                  "s: its first line has to say what runs it",
		"#!sh\n":                "s: its first line has to name an interpreter by its whole path",
		"#!/bin/sh\r\necho\r\n": "s: its lines end as in DOS",
		"#!/bin/sh\n\x00":       "s: it is not a text in UTF-8",
		"\x7fELF\xff":           "s: it is not a text in UTF-8",
		"#!/bin/sh\n" + strings.Repeat("#", MaxText): "s: it has 131082 bytes, and a batch script may have 131072",
	} {
		if _, err := Read("s", text, nil, now); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

// All lines are spoken of, and what is left out is what was named.
func TestIgnored(t *testing.T) {
	const text = "#!/bin/bash\n#SBATCH -p gpu --mail-type=ALL\n#SBATCH --mail-user me@example.com -c 2\n#SBATCH --new-thing=1\nsleep 1\n"
	_, err := Read("s", text, nil, now)
	want := "s:2: #SBATCH --partition: " + oneMachine + "\ns:2: #SBATCH --mail-type: " + noMail + "\ns:3: #SBATCH --mail-user: " + noMail +
		"\ns:4: #SBATCH --new-thing=1: is not known\n" +
		"to leave options out, for one script here and on a cluster: --ignore-directive partition,mail-type,mail-user"
	if err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
	s, err := Read("s", text, []string{"p", "mail-type", "mail-user", "new-thing"}, now)
	if err != nil || show(s) != "cpus 2" {
		t.Errorf("%v, %v", s, err)
	}
	if _, err = Read("s", text, []string{"p", "mail-type", "mail-user", "new-thing", "qos"}, now); err == nil ||
		err.Error() != `s: it has no line with the option "qos", which is to be ignored` {
		t.Error(err)
	}
}

// What has no effect, and what images do not have, is said.
func TestNotes(t *testing.T) {
	s, err := Read("s", `#!/bin/bash

#SBATCH -c 2
 #SBATCH -c 3
#PBS -l ncpus=4
module load gcc
#SBATCH -c 5
srun ./program
`, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"s:4: #SBATCH is ignored, as batch systems do it: it does not stand at the beginning of its line",
		"s:5: #PBS is ignored beside the lines of #SBATCH",
		"s:6: module: an image has its software already: choose one by --image that has what is loaded here; with --host no profile of a shell is read, " +
			"which might define it",
		"s:7: #SBATCH is ignored, as batch systems do it: it stands behind the first command",
		"s:8: srun: the image, or with --host the machine, has to have it; a Job has one task for each index, so a program can be run without it",
	}
	if !slices.Equal(s.Notes, want) || s.CPUs != 2 {
		t.Errorf("%d CPUs; notes:\n%s", s.CPUs, strings.Join(s.Notes, "\n"))
	}
	s, err = Read("s", "#!/bin/sh\n"+strings.Repeat("srun x\n", 1000), nil, now)
	if err != nil || len(s.Notes) != maxNotes {
		t.Errorf("%d notes, %v", len(s.Notes), err)
	}
}

// The shell before an array gives each index its task, and sends the output where the lines say.
func TestTheShellBeforeAnArray(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "s")
	if err := os.WriteFile(file, []byte("#!"+shell+"\necho \"$SLURM_ARRAY_TASK_ID $SLURM_JOB_ID $*\"\necho oops >&2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(s *Script, index int64) string {
		command, err := s.Command(file, []string{"a", "b c"})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = []string{fmt.Sprint("JOB_COMPLETION_INDEX=", index), "SLURM_ARRAY_JOB_ID=j", "SLURM_JOB_NAME=it's"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	s, err := Read("s", "#!/bin/sh\n#SBATCH -a 7,1-9:4,20-22 -o '"+dir+"/%x_%a'\n", nil, now)
	if err != nil {
		t.Fatal(err)
	}
	for i, task := range []int{7, 1, 5, 9, 20, 21, 22} {
		out := run(s, int64(i))
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("it's_", task)))
		if want := fmt.Sprintf("%d j_%[1]d a b c\noops\n", task); err != nil || string(text) != want || out != "" {
			t.Errorf("index %d: %q, %v; printed %q", i, text, err, out)
		}
	}
}

func TestTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := &Array{}
		var all []int64
		for range rapid.IntRange(1, 4).Draw(t, "ranges") {
			r := batch.TaskRange{
				First: rapid.Int64Range(0, 1000).Draw(t, "first"), Index: int64(len(all)),
				Step: rapid.Int64Range(1, 50).Draw(t, "step"), Count: rapid.Int64Range(1, 20).Draw(t, "count"),
			}
			a.Ranges = append(a.Ranges, r)
			for i := range r.Count {
				all = append(all, r.First+i*r.Step)
			}
		}
		n, least, greatest := a.Tasks()
		if n != int64(len(all)) || least != slices.Min(all) || greatest != slices.Max(all) {
			t.Fatalf("%d from %d to %d of %v", n, least, greatest, all)
		}
	})
}

func TestExplain(t *testing.T) {
	var out strings.Builder
	if err := Explain(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\n  squeue, qstat  ", "\n  --cpus-per-task, -c  ", "\n  -l  ", "\n  TIMEOUT (TO)  ",
		"\n  SLURM_SUBMIT_DIR, PBS_O_WORKDIR  ", "\n  --partition, -p  ", "\n  -q  ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	for _, table := range [][]option{slurmOptions(), pbsOptions()} {
		seen := map[string]bool{}
		for _, o := range table {
			for _, name := range []string{"--" + o.long, "-" + o.short} {
				if seen[name] && len(name) > 1 && name != "--" {
					t.Errorf("%s is there twice", name)
				}
				seen[name] = true
			}
			if o.ours == "" || o.long == "" && o.short == "" {
				t.Errorf("%s has no explanation", o.name())
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{
		"#!/bin/sh\n#SBATCH -a 1-7:2,9%3 -t 1-2:3:4 --mem=4G -o /o/%x_%A-%a.out -d afterok:a:b\n#SBATCH --export=A,B=c --gres=gpu:a100:1\nsrun x\n",
		"#!/bin/sh\n#PBS -l select=1:ncpus=8:mem=16gb,walltime=1:2:3 -W depend=afterok:a,afterany:b -J 0-9\n#PBS -o /x -j oe\n",
		"#!/bin/sh\n#SBATCH -J \"a \\\"b\" 'c' # d\n #SBATCH\n#SBATCH --\n#SBATCH -\n#PBS -\n",
	} {
		f.Add(text, "partition,l")
	}
	f.Fuzz(func(t *testing.T, text, ignore string) {
		s, err := Read("s", text, strings.Split(ignore, ","), now)
		if err != nil {
			if err.Error() == "" {
				t.Errorf("no reason for %q", text)
			}
			return
		}
		if s.Array != nil {
			if n, least, greatest := s.Array.Tasks(); n < 1 || n > maxTasks || least > greatest || least < 0 {
				t.Errorf("%d tasks from %d to %d", n, least, greatest)
			}
		}
		if s.CPUs < 0 || s.MiB < 0 || s.GPUs < 0 || s.Time < 0 || len(s.Notes) > maxNotes {
			t.Errorf("%+v", s)
		}
		command, err := s.Command("/s", nil)
		if err != nil || len(command) == 0 {
			t.Errorf("%q, %v", command, err)
		}
		_ = s.Environment("/")
	})
}
