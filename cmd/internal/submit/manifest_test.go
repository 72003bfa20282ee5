package submit

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// manifest returns what a command line describes, as YAML.
func manifest(t *testing.T, stdin string, args ...string) (string, error) {
	t.Helper()
	var o Options
	flags := pflag.NewFlagSet("submit", pflag.ContinueOnError)
	o.AddSubmitFlags(flags)
	o.AddFollowFlags(flags, OnStartErrorWait)
	flags.StringVarP(&o.Namespace, "namespace", "n", "", "") // the commands have it from elsewhere
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	m, err := o.Manifests(flags, flags.Args(), strings.NewReader(stdin))
	if err != nil {
		return "", err
	}
	raw, err := yaml.Marshal(m.Job.Object)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), nil
}

func TestFlagsMakeAJob(t *testing.T) {
	t.Setenv("FROM_HERE", "there")
	got, err := manifest(t, "", "--image", "quay.io/a/Perl:5", "--completions=3", "--parallelism=2", "--indexed", "-e", "A=b=c",
		"-e", "FROM_HERE", "--cpu=500m", "--memory=1Gi", "--volume", "/data:/d:ro", "--deadline=90s", "--pod-deadline=1m", "--ttl=1m", "--pull=never",
		"-l", "a=b", "-w", "/d", "--backoff-limit=4", "--", "echo", "-n")
	if err != nil {
		t.Fatal(err)
	}
	want := `apiVersion: batch/v1
kind: Job
metadata:
  generateName: perl-
  labels:
    a: b
spec:
  activeDeadlineSeconds: 90
  backoffLimit: 4
  completionMode: Indexed
  completions: 3
  parallelism: 2
  template:
    metadata: {}
    spec:
      activeDeadlineSeconds: 60
      containers:
      - command:
        - echo
        - -n
        env:
        - name: A
          value: b=c
        - name: FROM_HERE
          value: there
        image: quay.io/a/Perl:5
        imagePullPolicy: Never
        name: perl
        resources:
          limits:
            cpu: 500m
            memory: 1Gi
          requests:
            cpu: 500m
            memory: 1Gi
        volumeMounts:
        - mountPath: /d
          name: volume-0
          readOnly: true
        workingDir: /d
      restartPolicy: Never
      volumes:
      - hostPath:
          path: /data
        name: volume-0
  ttlSecondsAfterFinished: 60
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

// The API says what becomes of zero and of negative counts, so they must reach it.
func TestCountsAreThoseThatWereGiven(t *testing.T) {
	for args, want := range map[string]string{
		"--completions 0":           "\n  completions: 0\n",
		"--completions 0 --indexed": "\n  completions: 0\n",
		"--completions -1":          "\n  completions: -1\n",
		"--parallelism 0":           "\n  parallelism: 0\n",
		"--parallelism -3":          "\n  parallelism: -3\n",
		"--ttl 0":                   "\n  ttlSecondsAfterFinished: 0\n",
	} {
		got, err := manifest(t, "", strings.Fields("--image x "+args)...)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, got\n%s", args, err, got)
		}
	}
	got, err := manifest(t, "", "--image", "x")
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"completions", "parallelism", "ttlSeconds", "activeDeadline"} {
		if strings.Contains(got, field) {
			t.Errorf("%s was not given, and is in\n%s", field, got)
		}
	}
}

func TestCommandLinesThatAreWrong(t *testing.T) {
	const job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: x}\n"
	for args, want := range map[string]string{
		"":                                 "nothing to run",
		"-f - --image x":                   "one or the other",
		"-f - -- true":                     "beside -f",
		"-f - --cpu 1":                     "--cpu is for --image",
		"-f /nowhere":                      "/nowhere",
		"--image x --env =a":               "--env",
		"--image x --env NOT_SET_ANYWHERE": "--env: NOT_SET_ANYWHERE",
		"--image x --cpu much":             "--cpu",
		"--image x --memory -1":            "--memory",
		"--image x --volume /a":            "--volume",
		"--image x --volume /a:b":          "--volume",
		"--image x --volume /a:/b:rx":      "--volume",
		"--image x --pull sometimes":       "--pull",
		"--image x --indexed":              "--indexed needs --completions",
		"--image x --deadline 10ms":        "--deadline",
		"--image x --deadline 0":           "--deadline: 0s is less than 1s",
		"--image x --deadline=-5s":         "--deadline: -5s is less than 1s",
		"--image x --deadline 1500ms":      "--deadline: 1.5s is not a number of whole seconds",
		"--image x --ttl=-5s":              "--ttl: -5s is less than 0s",
		"--image x --ttl 500ms":            "--ttl: 500ms is not a number of whole seconds",
		"--image x --ttl 999999h":          "--ttl: 999999h0m0s is more",
		"--image x --label a":              "--label",
		"--image x --progress loud":        "--progress",
		"--image x --on-start-error panic": "--on-start-error",
	} {
		if _, err := manifest(t, job, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
	for stdin, want := range map[string]string{
		"":                               "no Job",
		"kind: Job":                      "apiVersion or kind is missing",
		job + "---\n" + job:              "a second Job",
		"apiVersion: v1\nkind: Secret\n": "no Job",
		"apiVersion: batch/v1\nkind: job\nmetadata: {name: x}\n": "but the job x: write kind: Job",
		"apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: x}\n": "but the PyTorchJob x: jobd runs Jobs and does " +
			"not have the kind PyTorchJob (kubeflow.org): make it a JobSet",
		"apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: x}\n":                                                    "create job NAME --from=cronjob/x",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n":                                                              "the template of a Job",
		"apiVersion: extensions/v1beta1\nkind: Job\nmetadata: {name: x}\n":                                              "write apiVersion: batch/v1",
		"apiVersion: v1\nkind: ConfigMap\n---\napiVersion: apps/v1\nkind: Deployment\n":                                 "make it a Job",
		"apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n---\napiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n": "several JobSets, of which only one",
		"apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: x}\n":                              "make it a JobSet",
		"apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: x}\n":                                         "make it a JobSet",
		"a: [": "document 1",
	} {
		if _, err := manifest(t, stdin, "-f", "-"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", stdin, err, want)
		}
	}
}

func TestFilesWithEverythingInThem(t *testing.T) {
	m, err := readFiles([]string{"-"}, strings.NewReader(`apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}
- {apiVersion: batch/v1, kind: Job, metadata: {name: x}}
---
# nothing
---
apiVersion: v1
kind: Secret
metadata: {name: b}
`))
	if err != nil || m.Job.GetName() != "x" || len(m.Others) != 2 || m.Others[1].GetName() != "b" {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestTheNamespaceOfAFileIsThatOfTheCommandLine(t *testing.T) {
	const job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: pi, namespace: default}\n"
	const beside = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: pi}\n---\n" +
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: default}\n"
	for _, tc := range []struct{ name, file, given, want string }{
		{"the same", job, "default", ""},
		{"none is given", job, "", ""},
		{"none is in the file", strings.Replace(job, ", namespace: default", "", 1), "team", ""},
		{"of the Job", job, "team", "Job pi: its namespace is default in the file, and team by --namespace"},
		{"of an object beside it", beside, "team", "ConfigMap settings: its namespace is default in the file, and team by"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			args := []string{"-f", "-"}
			if tc.given != "" {
				args = append(args, "--namespace", tc.given)
			}
			_, err := manifest(t, tc.file, args...)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Error(err)
			}
		})
	}
}

func TestNamesFromImages(t *testing.T) {
	for image, want := range map[string]string{
		"busybox": "busybox", "docker.io/library/perl:5.34.0": "perl", "localhost:5000/My_App@sha256:abc": "my-app",
		"x/...": "job", "": "job",
	} {
		if got := containerName(image); got != want {
			t.Errorf("%s: got %s, want %s", image, got, want)
		}
	}
}
