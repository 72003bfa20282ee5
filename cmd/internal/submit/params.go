package submit

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/batch"
)

const (
	// maxCombinations is how many indexes a Job has at most of which each may fail by itself, and maxValues how many keys a ConfigMap
	// of jobd may have.
	maxCombinations = 100_000
	maxValues       = 20_000
	// maxTable is how many bytes of a file with rows are read.
	maxTable = 4 << 20
	// suffixLength is that of a generated name.
	suffixLength = 5
)

// choosesPrograms are variables by which the dynamic loader, shells, interpreters and libraries find what they run, and with the last line
// families of names of such. A table is data, which may be somebody else's: with a command of the machine it could name a program of theirs
// that runs as whoever submits.
var choosesPrograms = regexp.MustCompile(`^(LD_.*|GLIBC_TUNABLES|GCONV_PATH|PATH|HOME|SHELL|BASH_ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS|PS4|IFS|ZDOTDIR|` +
	`EDITOR|VISUAL|PAGER|BROWSER|LESSOPEN|XDG_(CONFIG|DATA|CACHE)_(HOME|DIRS)|` +
	`PYTHON(PATH|HOME|STARTUP|USERBASE|BREAKPOINT|INSPECT|WARNINGS|PLATLIBDIR|PYCACHEPREFIX|EXECUTABLE)|IPYTHONDIR|MPLCONFIGDIR|MATPLOTLIBRC|` +
	`VIRTUAL_ENV|CONDA_(EXE|PREFIX|PYTHON_EXE)|PIP_.*|UV_(PYTHON|CONFIG_FILE|DEFAULT_INDEX|INDEX_URL|FIND_LINKS)|PERL5(LIB|OPT|DB|SHELL)|PERLLIB|` +
	`RUBY(LIB|OPT|SHELL)|GEM_(HOME|PATH)|BUNDLE_(GEMFILE|PATH)|NODE_(OPTIONS|PATH)|(?i:npm_config_.*)|` +
	`R_(HOME|LIBS.*|PROFILE.*|ENVIRON.*)|JULIA_(LOAD_PATH|DEPOT_PATH|PROJECT)|LUA_(INIT|PATH|CPATH).*|CLASSPATH|(JAVA_TOOL|_JAVA|JDK_JAVA)_OPTIONS|` +
	`JAVA_HOME|DOTNET_STARTUP_HOOKS|(COR|CORECLR)_PROFILER.*|PHPRC|PHP_INI_SCAN_DIR|ERL_(LIBS|FLAGS|AFLAGS|ZFLAGS)|TCLLIBPATH|MATLABPATH|OCTAVE_(PATH|HOME|SITE_INITFILE)|` +
	`MAKE(FLAGS|FILES)|GNUMAKEFLAGS|RUSTC(_WRAPPER)?|CARGO_(HOME|BUILD_.*|TARGET_.*)|GOFLAGS|OPENSSL_(CONF|ENGINES|MODULES)|OMP_TOOL_LIBRARIES|` +
	`CUDA_INJECTION.*|NCCL_CONF_FILE|OCL_ICD_.*|VK_(ICD|DRIVER|LAYER|ADD).*|(GTK|GIO)_.*|QT_.*|TORCH_(EXTENSIONS_DIR|LIBRARY)|SSH_.*|SUDO_.*|` +
	`GIT_(SSH|SSH_COMMAND|EXEC_PATH|PAGER|EDITOR|CONFIG.*|EXTERNAL_DIFF|PROXY_COMMAND|ASKPASS|TEMPLATE_DIR)|` +
	`.*_(PRELOAD|PLUGINS?|PLUGIN_PATH|MODULE_PATH|LIBRARY_PATH|STARTUP|WRAPPER|ASKPASS|EXEC_PATH|LOAD_PATH))$`)

// table is a list of values of one variable, or rows of several.
type table struct {
	from  string // the flag, and what was given
	names []string
	rows  [][]string
}

// sweepTables reads what --param and --each ask for, in their order.
func (o *Options) sweepTables(stdin io.Reader) (all []table, err error) {
	for _, file := range o.Each {
		t, err := readTable(file, stdin)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	for _, given := range o.Params {
		t, err := parseParam(given)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	seen := map[string]string{"JOB_COMPLETION_INDEX": "Kubernetes"}
	for _, e := range o.Env {
		name, _, _ := strings.Cut(e, "=")
		seen[name] = "--env " + name
	}
	for _, t := range all {
		for i, name := range t.names {
			if wrong := validation.IsEnvVarName(name); len(wrong) > 0 {
				return nil, fmt.Errorf("%s: %q is no name of a variable: letters, digits, _, - and . are, and it begins with no digit", t.from, name)
			}
			if name == "." || strings.HasPrefix(name, "..") || len(name) > 200 {
				return nil, fmt.Errorf("%s: %q is no name of a variable that a ConfigMap can hold", t.from, name)
			}
			if by, ok := seen[name]; ok || slices.Contains(t.names[:i], name) {
				if !ok {
					by = t.from
				}
				return nil, fmt.Errorf("%s: the variable %s is given twice, by %s too", t.from, name, by)
			}
		}
		for _, name := range t.names {
			seen[name] = t.from
		}
	}
	return all, nil
}

// parseParam reads NAME=VALUE,VALUE,...; a value may be quoted as in CSV.
func parseParam(given string) (table, error) {
	t := table{from: "--param " + given}
	name, list, ok := strings.Cut(given, "=")
	if !ok || name == "" {
		return t, fmt.Errorf("--param: %q is not of the form NAME=VALUE,VALUE", given)
	}
	t.from, t.names = "--param "+name, []string{name}
	r := csv.NewReader(strings.NewReader(list))
	values, err := r.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return t, fmt.Errorf("%s: %w", t.from, err)
	}
	if rest, more := r.Read(); more == nil && len(rest) > 0 {
		return t, fmt.Errorf("%s: a value that has a line break needs quotes, as in CSV", t.from)
	}
	if len(values) == 0 {
		return t, fmt.Errorf("%s has no values", t.from)
	}
	for _, value := range values {
		t.rows = append(t.rows, []string{value})
	}
	return t, nil
}

// readTable reads a CSV file whose first row has the names of the variables; "-" for stdin.
func readTable(file string, stdin io.Reader) (table, error) {
	t := table{from: "--each " + file}
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return t, fmt.Errorf("--each: %w", err)
		}
		defer f.Close()
		in = f
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxTable+1))
	if err != nil {
		return t, fmt.Errorf("%s: %w", t.from, err)
	}
	if len(raw) > maxTable {
		return t, fmt.Errorf("%s has more than %d MiB, and the values of one Job have at most 1 MiB: split it", t.from, maxTable>>20)
	}
	rows, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(raw, []byte("\ufeff")))).ReadAll()
	switch {
	case err != nil:
		return t, fmt.Errorf("%s: %w", t.from, err)
	case len(rows) < 2:
		return t, fmt.Errorf("%s: the first row names the variables, and each further one is an index: there is none", t.from)
	}
	for _, name := range rows[0] {
		if choosesPrograms.MatchString(name) {
			return t, fmt.Errorf("%s: the column %s would say which programs run, and not what they work on: call it otherwise, "+
				"or give the variable by --param or --env", t.from, name)
		}
	}
	t.names, t.rows = rows[0], rows[1:]
	return t, nil
}

// sweep makes a Job one with an index for each combination of values, and returns the ConfigMap that has them; nil if the command line
// gives none. The last variable changes fastest.
func (o *Options) sweep(j *batchv1.Job, given func(flag string) bool, stdin io.Reader) (*corev1.ConfigMap, error) {
	if len(o.Params) == 0 && len(o.Each) == 0 {
		return nil, nil
	}
	for _, flag := range []string{"completions", "indexed"} {
		if given(flag) {
			return nil, fmt.Errorf("--%s: --param and --each say which indexes there are: leave the flag out", flag)
		}
	}
	if j.Spec.CompletionMode != nil {
		return nil, errors.New("the script has an array already: --param and --each make one")
	}
	tables, err := o.sweepTables(stdin)
	if err != nil {
		return nil, err
	}
	n, variables := 1, 0
	for _, t := range tables {
		variables += len(t.names)
		if n > math.MaxInt32/len(t.rows) {
			return nil, tooManyValues("more than 2 billion combinations")
		}
		n *= len(t.rows)
	}
	if n > maxCombinations || n*variables > maxValues {
		return nil, tooManyValues(fmt.Sprintf("%d combinations of %d variables", n, variables))
	}
	base := o.Name
	if base == "" { // the ConfigMap, which the template names, needs a name before the Job exists
		base = j.GenerateName + utilrand.String(suffixLength)
		j.Name, j.GenerateName = base, ""
	}
	values := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: base + "-values"},
		Immutable:  ptr.To(true), Data: map[string]string{},
	}
	size, every := 0, n
	for _, t := range tables {
		every /= len(t.rows) // how many indexes in a row have the same one of it
		for index := range n {
			for i, value := range t.rows[index/every%len(t.rows)] {
				key := batch.IndexKey(index, t.names[i])
				values.Data[key] = value
				size += len(key) + len(value)
			}
		}
	}
	if size > corev1.MaxSecretSize {
		return nil, tooManyValues(fmt.Sprintf("%d combinations with %.1f MiB of names and values", n, float64(size)/(1<<20)))
	}
	var env []corev1.EnvVar
	for _, t := range tables {
		for _, name := range t.names {
			env = append(env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: values.Name}, Key: name,
			}}})
		}
	}
	containers := j.Spec.Template.Spec.Containers
	for i := range containers {
		containers[i].Env = slices.Concat(env, containers[i].Env)
	}
	annotate(j, batch.IndexEnvAnnotation, values.Name)
	j.Spec.Completions = ptr.To(int32(n))
	o.independent(j, n, given)
	return values, nil
}

func tooManyValues(what string) error {
	return fmt.Errorf("%s: a Job has at most %d combinations, %d values (of all variables together) and 1 MiB of them, since they are in one ConfigMap: "+
		"split it into several Jobs", what, maxCombinations, maxValues)
}

// independent makes the Job one of n indexes of which each may fail by itself, as many at a time as there is room for.
func (o *Options) independent(j *batchv1.Job, n int, given func(flag string) bool) {
	j.Spec.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	if !given("backoff-limit") {
		j.Spec.BackoffLimit = nil
		j.Spec.BackoffLimitPerIndex = ptr.To[int32](0)
	}
	if !given("parallelism") {
		j.Spec.Parallelism = ptr.To(int32(min(n, maxParallel)))
	}
}

// createValues creates the ConfigMap of a Job that was created suspended, as one that goes with the Job, and then lets the Job start.
// So whatever ends this command in between leaves a Job that holds nothing, and never a ConfigMap that belongs to nobody.
func (m *Manifests) createValues(ctx context.Context, client *Client, j *batchv1.Job) (*batchv1.Job, error) {
	values := m.Values.DeepCopy()
	values.Namespace = j.Namespace
	values.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, BlockOwnerDeletion: ptr.To(true),
	}}
	_, err := client.Kubernetes.CoreV1().ConfigMaps(j.Namespace).Create(ctx, values, metav1.CreateOptions{FieldManager: fieldManager})
	started := j
	if err == nil && !m.staysSuspended() {
		started, err = client.Kubernetes.BatchV1().Jobs(j.Namespace).Patch(ctx, j.Name, types.MergePatchType,
			[]byte(`{"spec": {"suspend": false}}`), metav1.PatchOptions{FieldManager: fieldManager})
	}
	if err == nil {
		return started, nil
	}
	background := metav1.DeletePropagationBackground
	deleted := client.Kubernetes.BatchV1().Jobs(j.Namespace).Delete(ctx, j.Name, metav1.DeleteOptions{
		PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &j.UID},
	})
	if deleted != nil {
		return nil, fmt.Errorf("the values of job %s: %w; the Job stays suspended, since deleting it has failed too: %w", j.Name, err, deleted)
	}
	return nil, fmt.Errorf("the values of job %s: %w; the Job was deleted", j.Name, err)
}

// staysSuspended reports whether the Job is to wait even when it has its values.
func (m *Manifests) staysSuspended() bool {
	suspended, _, _ := unstructured.NestedBool(m.Job.Object, "spec", "suspend")
	return suspended
}

// IndexValues returns the values of a Job's indexes; nil if it has none, or they cannot be read.
func IndexValues(ctx context.Context, client kubernetes.Interface, j *batchv1.Job) *batch.IndexValues {
	values, err := batch.IndexValuesOf(j, func(name string) (map[string]string, error) {
		cm, err := client.CoreV1().ConfigMaps(j.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return cm.Data, nil
	})
	if err != nil {
		return nil
	}
	return values
}
