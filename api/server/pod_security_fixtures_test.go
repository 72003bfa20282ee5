package server

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/pod-security-admission/api"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podsecurity"
)

// fixture is one of the library's pods, which a level of a version allows or forbids.
type fixture struct {
	name, level, version string
	allowed              bool
	pod                  *corev1.Pod
}

func (f fixture) labels() map[string]string {
	return map[string]string{
		api.EnforceLevelLabel: f.level, api.EnforceVersionLabel: f.version,
		api.WarnLevelLabel: f.level, api.WarnVersionLabel: f.version,
	}
}

// readFixtures returns all fixtures that k8s.io/pod-security-admission ships: LEVEL/VERSION/pass|fail/NAME.yaml. They are read
// once for all tests, which do not change them.
func readFixtures(t *testing.T) []fixture {
	t.Helper()
	all, err := fixtures()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 4000 {
		t.Fatalf("there are only %d fixtures", len(all))
	}
	return all
}

var fixtures = sync.OnceValues(func() (all []fixture, err error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	if err != nil {
		return nil, fmt.Errorf("find the module of the fixtures: %w", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "test", "testdata")
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		part := strings.Split(path, "/")
		// MKNOD is privileged here, unlike in a cluster.
		allowed := part[2] == "pass" && (part[0] == "privileged" || !bytes.Contains(content, []byte("MKNOD")))
		f := fixture{path, part[0], part[1], allowed, &corev1.Pod{}}
		if err := yaml.UnmarshalStrict(content, f.pod); err != nil {
			return err
		}
		f.pod.Name = "test" // some have names that no pod can have
		core.SetPodDefaults(f.pod)
		all = append(all, f)
		return nil
	})
	return all, err
})

// someFixtures returns those of each rule, as the newest version has them, and of each version the first that it allows and the
// first that it forbids: the rules of all versions are asked without the API. All of them are sent with JOBD_FIXTURES=all.
func someFixtures(all []fixture) (some []fixture) {
	if os.Getenv("JOBD_FIXTURES") == "all" {
		return all
	}
	newest := map[string]string{} // by level
	for _, f := range all {
		if version.MustParseGeneric(f.version).GreaterThan(version.MustParseGeneric(cmp.Or(newest[f.level], "v0.0"))) {
			newest[f.level] = f.version
		}
	}
	seen := map[string]bool{}
	for _, f := range all {
		kind := fmt.Sprint(f.level, f.version, f.allowed)
		if f.version == newest[f.level] || !seen[kind] {
			some = append(some, f)
		}
		seen[kind] = true
	}
	return some
}

// TestPodSecurityFixtures asks for every pod of the library's fixtures whether its namespace admits it, as the control
// loop does for the pods that it creates.
func TestPodSecurityFixtures(t *testing.T) {
	policy, err := podsecurity.New(podsecurity.Configuration{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range readFixtures(t) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: f.labels()}}
		refusal := policy.Refusal(t.Context(), ns, f.pod, admissionv1.Create, "somebody")
		if (refusal == nil) != f.allowed || refusal != nil && !strings.Contains(refusal.Error(), "violates PodSecurity \""+f.level+":"+f.version) {
			t.Errorf("%s: %v", f.name, refusal)
		}
	}
}

// TestPodSecurityFixturesOverTheAPI creates the pods, and Jobs of them. What jobd itself does not support is refused
// before Pod Security is asked; the error names such a field.
func TestPodSecurityFixturesOverTheAPI(t *testing.T) {
	ts := startServer(t)
	config := ts.config()
	warned := &warnings{}
	config.WarningHandlerWithContext = warned
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	namespaces, unserved, decided := map[string]bool{}, map[string]int{}, 0
	// own notes the fields for which jobd itself refuses a pod.
	own := func(err error) bool {
		if !apierrors.IsInvalid(err) {
			return false
		}
		for _, cause := range err.(apierrors.APIStatus).Status().Details.Causes {
			unserved[cause.Field]++
		}
		return true
	}
	sent := someFixtures(readFixtures(t))
	for _, f := range sent {
		ns := f.level + "-" + strings.ReplaceAll(f.version, ".", "-")
		if !namespaces[ns] {
			namespaces[ns] = true
			if _, err := client.CoreV1().Namespaces().Create(
				t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns, Labels: f.labels()}},
				metav1.CreateOptions{},
			); err != nil {
				t.Fatal(err)
			}
		}
		says := fmt.Sprintf("violate%%s PodSecurity \"%s:%s\"", f.level, f.version)
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), f.pod, dry)
		switch {
		case own(err):
		case f.allowed && err != nil, !f.allowed && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), fmt.Sprintf(says, "s"))):
			t.Errorf("%s: the pod: %v", f.name, err)
		default:
			decided++
		}

		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}}
		job.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: f.pod.ObjectMeta, Spec: f.pod.Spec}
		job.Spec.Template.Name, job.Spec.Template.Spec.RestartPolicy = "", corev1.RestartPolicyNever
		warned.texts = nil
		_, err = client.BatchV1().Jobs(ns).Create(t.Context(), job, dry)
		said := strings.Contains(strings.Join(warned.texts, "\n"), fmt.Sprintf(says, ""))
		switch {
		case own(err):
		case err != nil || said == f.allowed:
			t.Errorf("%s: the Job: %v, with the warnings %q", f.name, err, warned.texts)
		}
	}
	if decided < len(sent)/2 {
		t.Errorf("only %d of %d pods got as far as Pod Security; the others were refused for %v", decided, len(sent), slices.Sorted(maps.Keys(unserved)))
	}
}

// warnings collects those of a client's answers.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeaderWithContext(_ context.Context, _ int, _ string, text string) {
	w.texts = append(w.texts, text)
}
