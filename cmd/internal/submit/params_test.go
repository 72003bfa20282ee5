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

	"github.com/jobd/jobd/api/batch"
)

// sweepOf returns the Job and its values that a command line makes.
func sweepOf(t *testing.T, stdin string, args ...string) (*batchv1.Job, *batch.IndexValues, error) {
	t.Helper()
	o := &Options{}
	flags := pflag.NewFlagSet("submit", pflag.ContinueOnError)
	o.AddSubmitFlags(flags)
	o.OnStartError, o.Progress = OnStartErrorWait, "auto"
	if err := flags.Parse(append([]string{"--image", "train:1"}, args...)); err != nil {
		t.Fatal(err)
	}
	m, err := o.Manifests(flags, flags.Args(), strings.NewReader(stdin))
	if err != nil {
		return nil, nil, err
	}
	j := &batchv1.Job{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(m.Job.Object, j); err != nil {
		t.Fatal(err)
	}
	env, ok := batch.IndexEnvOf(j)
	if !ok || m.Values == nil || env.ConfigMap != m.Values.Name || m.Values.Name != j.Name+"-values" {
		t.Fatalf("%v: the ConfigMap is %v", args, m.Values)
	}
	return j, &batch.IndexValues{IndexEnv: env, Data: m.Values.Data}, nil
}

func TestSweeps(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.csv")
	if err := os.WriteFile(file, []byte("\ufeffname,text\nx,\"a, \"\"b\"\"\"\ny,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		args  []string
		stdin string
		want  string // the words of all indexes
	}{
		{"a list", []string{"--param", "lr=0.1,0.01"}, "", "lr=0.1|lr=0.01"},
		{"the product, the last one changes fastest", []string{"--param", "lr=0.1,0.01", "--param", "bs=32,64,128"}, "",
			"lr=0.1,bs=32|lr=0.1,bs=64|lr=0.1,bs=128|lr=0.01,bs=32|lr=0.01,bs=64|lr=0.01,bs=128"},
		{"quotes", []string{"--param", `a="x,y",z`}, "", `a="x,y"|a=z`},
		{"one value, and an empty one", []string{"--param", "a=1", "--param", "b=,2"}, "", `a=1,b=""|a=1,b=2`},
		{"rows of a file", []string{"--each", file}, "", `name=x,text="a, \"b\""|name=y,text=""`},
		{"rows of the standard input, beside a list", []string{"--each", "-", "--param", "s=1,2"}, "a,b\n1,2\n3,4\n",
			"a=1,b=2,s=1|a=1,b=2,s=2|a=3,b=4,s=1|a=3,b=4,s=2"},
	} {
		j, values, err := sweepOf(t, c.stdin, c.args...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var got []string
		for i := range int(*j.Spec.Completions) {
			got = append(got, values.Words(i))
		}
		if all := strings.Join(got, "|"); all != c.want {
			t.Errorf("%s: %s, want %s", c.name, all, c.want)
		}
		if s := &j.Spec; *s.CompletionMode != batchv1.IndexedCompletion || *s.BackoffLimitPerIndex != 0 ||
			s.BackoffLimit != nil || *s.Parallelism != *s.Completions {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
	j, _, err := sweepOf(t, "", "--param", "lr=1,2", "--backoff-limit", "3", "--parallelism", "1", "--env", "X=$(lr)", "--name", "mine")
	if err != nil || *j.Spec.BackoffLimit != 3 || j.Spec.BackoffLimitPerIndex != nil || *j.Spec.Parallelism != 1 || j.Name != "mine" {
		t.Errorf("%v %+v", err, j)
	}
	if env := j.Spec.Template.Spec.Containers[0].Env; len(env) != 2 || env[0].Name != "lr" || env[1].Name != "X" {
		t.Errorf("the variables are %+v: those of --env may use the values", env)
	}
}

func TestSweepsThatAreRefused(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("x,", 200), ",")
	long := strings.Repeat("y", 100_000)
	for _, c := range []struct {
		args  []string
		stdin string
		want  string
	}{
		{[]string{"--param", "lr"}, "", `--param: "lr" is not of the form NAME=VALUE,VALUE`},
		{[]string{"--param", "=1"}, "", "is not of the form"},
		{[]string{"--param", "lr="}, "", "--param lr has no values"},
		{[]string{"--param", "1x=1"}, "", `"1x" is no name of a variable`},
		{[]string{"--param", "a b=1"}, "", `"a b" is no name of a variable`},
		{[]string{"--param", "..=1"}, "", `".." is no name of a variable`},
		{[]string{"--param", "lr=1", "--param", "lr=2"}, "", "the variable lr is given twice"},
		{[]string{"--param", "lr=1", "--env", "lr=2"}, "", "the variable lr is given twice, by --env lr too"},
		{[]string{"--param", "JOB_COMPLETION_INDEX=1"}, "", "given twice, by Kubernetes too"},
		{[]string{"--param", `lr="1`}, "", "--param lr: "},
		{[]string{"--param", "lr=1\n2"}, "", "a value that has a line break needs quotes"},
		{[]string{"--param", "lr=1,2", "--completions", "3"}, "", "--completions: --param and --each say which indexes there are"},
		{[]string{"--param", "lr=1,2", "--indexed"}, "", "--indexed"},
		{[]string{"--each", "-"}, "", "each further one is an index: there is none"},
		{[]string{"--each", "-"}, "a,b\n", "each further one is an index: there is none"},
		{[]string{"--each", "-"}, "a,b\n1\n", "--each -: record on line 2: wrong number of fields"},
		{[]string{"--each", "-"}, "a,a\n1,2\n", "the variable a is given twice"},
		{[]string{"--each", "-"}, "lr,LD_PRELOAD\n1,/tmp/mine.so\n", "the column LD_PRELOAD would say which programs run"},
		{[]string{"--each", "-"}, "PYTHONPATH\n/tmp/mine\n", "the column PYTHONPATH would say which programs run"},
		{[]string{"--each", "-"}, "PYTHONPYCACHEPREFIX\n/tmp/mine\n", "the column PYTHONPYCACHEPREFIX would say which programs run"},
		{[]string{"--each", "-"}, "ZDOTDIR\n/tmp/mine\n", "the column ZDOTDIR would say which programs run"},
		{[]string{"--each", "-"}, "NCCL_NET_PLUGIN\n/tmp/mine.so\n", "the column NCCL_NET_PLUGIN would say which programs run"},
		{[]string{"--each", "-"}, "npm_config_node_options\n-r=x\n", "the column npm_config_node_options would say which programs run"},
		{[]string{"--each", "-"}, "PYTHONHASHSEED,NODE_COUNT,DATA_PATH,CONFIG,OUTPUT_DIR,lib,R,CUDA_VISIBLE_DEVICES,OMP_NUM_THREADS,ENV,UV_INDEX,CARGO_WEIGHT\n", "there is none"},
		{[]string{"--each", "/none.csv"}, "", "--each: open /none.csv"},
		{[]string{"--each", "-"}, "a\n" + strings.Repeat(strings.Repeat("z", 1000)+"\n", 5000), "has more than 4 MiB"},
		{[]string{"--param", "a=" + many, "--param", "b=" + many}, "", "40000 combinations of 2 variables: a Job has at most 100000 combinations, 20000 values"},
		{[]string{"--param", "a=" + many, "--param", "b=" + many, "--param", "c=" + many, "--param", "d=" + many, "--param", "e=" + many}, "",
			"more than 2 billion combinations"},
		{[]string{"--param", "a=" + many, "--param", "b=" + long}, "", "200 combinations with 19.1 MiB of names and values"},
	} {
		if _, _, err := sweepOf(t, c.stdin, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: %v, want %q", fmt.Sprint(c.args), err, c.want)
		}
	}
}

func TestPrefixHasTheValuesOfTheIndex(t *testing.T) {
	for _, c := range []struct{ line, values, text string }{
		{"[pod/j-1-x/c index=1(lr=0.1,bs=32) stdout] 2026-01-02T03:04:05Z hello", "lr=0.1,bs=32", "hello"},
		{`[pod/j-1-x/c index=1(a="x) (\"y") attempt=2 try=3 restart=1 stderr] 2026-01-02T03:04:05Z hello`, `a="x) (\"y"`, "hello"},
		{"[pod/j-1-x/c index=1 stdout] 2026-01-02T03:04:05Z hello", "", "hello"},
	} {
		got := parsePrefix([]byte(c.line))
		if got.Index == nil || *got.Index != 1 || got.Values != c.values || string(got.Text) != c.text || got.Stream == "" {
			t.Errorf("%s: %+v %q", c.line, got, got.Text)
		}
	}
}
