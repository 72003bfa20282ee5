package submit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/batch"
)

// submitted returns the Job that a script becomes, with flags.
func submitted(t *testing.T, text string, args ...string) (*batchv1.Job, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "Train it.sh")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, flags := Options{}, pflag.NewFlagSet("submit", pflag.ContinueOnError)
	o.AddSubmitFlags(flags)
	o.AddScriptFlags(flags)
	flags.StringArrayVar(&o.After, "after", nil, "")
	flags.StringVar(&o.At, "at", "", "")
	o.OnStartError, o.Progress = OnStartErrorWait, "auto"
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	m, _, err := o.Script(flags, file, flags.Args(), nil)
	if err != nil {
		return nil, err
	}
	j := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.Job.Object, j); err != nil {
		t.Fatal(err)
	}
	checked := j.DeepCopy()
	checked.Namespace = "default"
	if checked.Name == "" {
		checked.Name = checked.GenerateName + "x"
	}
	checked.UID = "u"
	batch.SetJobDefaults(checked)
	batch.PrepareJob(checked)
	if errs := batch.ValidateJob(checked); len(errs) > 0 {
		t.Errorf("the server would refuse it: %v", errs)
	}
	return j, nil
}

const training = `#!/bin/sh
#SBATCH --job-name=Train -t 2:00:00 -c 4 --mem=8G --gres=gpu:2 --array=1-9:2%2
#SBATCH --output=/out/%x-%a --comment "for the paper" --export=COLOUR=blue --chdir=/work
#SBATCH --dependency=afterok:prep,afterany:check
echo $SLURM_ARRAY_TASK_ID
`

func TestAScriptAsAJob(t *testing.T) {
	out := t.TempDir()
	j, err := submitted(t, training, "--image", "busybox:1.36", "--volume", out+":/out", "--", "a", "$(b)")
	if err != nil {
		t.Fatal(err)
	}
	pod := j.Spec.Template.Spec
	c := pod.Containers[0]
	got := fmt.Sprint(
		j.GenerateName, " ", *j.Spec.Completions, *j.Spec.Parallelism, *j.Spec.BackoffLimitPerIndex, j.Spec.BackoffLimit, " ", *j.Spec.Suspend, " ",
		j.Annotations["jobd.dev/array"], " ", j.Annotations["jobd.dev/after"], " ",
		j.Annotations["kubernetes.io/description"], " ", *pod.ActiveDeadlineSeconds, " ",
		c.Resources.Limits.Cpu(), " ", c.Resources.Requests.Memory(), " ", c.Resources.Limits[gpu], " ", c.WorkingDir, " ", c.Command[3:],
	)
	if want := "train- 5 2 0 <nil> true 1-9:2 prep:ok,check:any for the paper 7200 4 8Gi {{2 0} {<nil>} 2 DecimalSI} /work [/var/spool/jobd/Train_it.sh a $$(b)]"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if j.Spec.Template.Annotations[batch.ScriptAnnotation] != training {
		t.Error("the script is not in the template")
	}
	variables := map[string]string{}
	for _, v := range c.Env {
		variables[v.Name] = v.Value
	}
	for name, want := range map[string]string{"SLURM_JOB_NAME": "Train", "SLURM_CPUS_PER_TASK": "4", "SLURM_ARRAY_TASK_MAX": "9", "COLOUR": "blue"} {
		if variables[name] != want {
			t.Errorf("%s is %q, want %q", name, variables[name], want)
		}
	}
}

func TestFlagsBeatLines(t *testing.T) {
	out := t.TempDir()
	j, err := submitted(t, training, "--image", "busybox:1.36", "--volume", out+":/out", "--cpu", "1", "--memory", "1Gi", "--parallelism", "5",
		"--deadline", "1m", "--workdir", "/", "--env", "COLOUR=red", "--name", "exactly", "--backoff-limit", "3")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := yaml.Marshal(j)
	for _, want := range []string{
		"name: exactly", "cpu: \"1\"", "memory: 1Gi", "parallelism: 5", "activeDeadlineSeconds: 60", "workingDir: /\n", "value: red", "backoffLimit: 3",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	if pod := j.Spec.Template.Spec; pod.ActiveDeadlineSeconds != nil || j.Spec.BackoffLimitPerIndex != nil {
		t.Error("both the flag and the line have an effect")
	}
}

func TestScriptsThatCannotBe(t *testing.T) {
	out := t.TempDir()
	for _, c := range []struct {
		name, text, want string
		args             []string
	}{
		{"without an image", "#!/bin/sh\ntrue\n", "a script runs in a container: name its image by --image", nil},
		{"beside a file", "#!/bin/sh\ntrue\n", "-f and a script were given", []string{"-f", "x"}},
		{"with completions of another kind", training, "--completions: Train it.sh says by its array", []string{"--image", "b", "--completions", "3"}},
		{"with an output that is lost", "#!/bin/sh\n#SBATCH -o %j.out\ntrue\n",
			"Train it.sh:2: #SBATCH --output %j.out: the file would be lost", []string{"--image", "b"}},
		{"with one beside the mount", "#!/bin/sh\n#SBATCH -o /out/../x\ntrue\n", "would be lost", []string{"--image", "b", "--volume", out + ":/out"}},
		{"with one that cannot be written", "#!/bin/sh\n#SBATCH -o /out/x\ntrue\n", "would be lost", []string{"--image", "b", "--volume", out + ":/out:ro"}},
		{"with what is not there", "#!/bin/sh\n#SBATCH -p x\ntrue\n", "Train it.sh:2: #SBATCH --partition", []string{"--image", "b"}},
		{"with a variable that is not set", "#!/bin/sh\n#SBATCH --export=NO_SUCH_THING_HERE\ntrue\n",
			"NO_SUCH_THING_HERE has no value here", []string{"--image", "b"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := submitted(t, c.text, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestOutputsThatAreKept(t *testing.T) {
	out := t.TempDir()
	for _, line := range []string{"-o /dev/null", "-o x -D /out", "-o /out/a/b"} {
		if _, err := submitted(t, "#!/bin/sh\n#SBATCH "+line+"\ntrue\n", "--image", "b", "--volume", out+":/out"); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Only what can be a script is one.
func TestScriptNamed(t *testing.T) {
	dir := t.TempDir()
	script, manifest := filepath.Join(dir, "s"), filepath.Join(dir, "job.yaml")
	for _, file := range []string{script, manifest} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args []string
		dash int
		want bool
	}{
		{nil, -1, false}, {[]string{script}, -1, true}, {[]string{script, "x"}, 1, true}, {[]string{script}, 0, false}, {[]string{"-"}, -1, true},
		{[]string{manifest}, -1, false}, {[]string{dir}, -1, false}, {[]string{filepath.Join(dir, "none")}, -1, false},
	} {
		if _, _, ok := ScriptNamed(c.args, c.dash); ok != c.want {
			t.Errorf("%q with -- at %d: %v", c.args, c.dash, ok)
		}
	}
}

func TestFileName(t *testing.T) {
	for name, want := range map[string]string{"a.sh": "a.sh", "..": "script", "a b/c": "a_b_c", strings.Repeat("x", 300): "script", "..data": "data"} {
		if got := fileName(name); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}
