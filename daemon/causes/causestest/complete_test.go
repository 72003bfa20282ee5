package causestest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/daemon/causes"
	"github.com/jobd/jobd/daemon/causes/parents"
	"github.com/jobd/jobd/daemon/notify"
)

// cronJobs are the explanations of CronJobs with each cause that is theirs alone, and of the name of a Job that is gone.
func cronJobs() (all []*why.Explanation) {
	w := causes.World{Now: Now, Source: why.FromRecords}
	var jobs []*batchv1.Job
	add := func(w causes.World, last *why.Explanation, change func(*batchv1.CronJob)) {
		cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n", UID: "u", CreationTimestamp: metav1.NewTime(Now.Add(-3 * time.Hour))}}
		cj.Spec.Schedule = "@hourly"
		change(cj)
		all = append(all, parents.CronJob(w, cj, jobs, last))
	}
	add(w, nil, func(cj *batchv1.CronJob) { cj.Spec.Suspend = ptr.To(true) })
	add(w, nil, func(cj *batchv1.CronJob) { cj.Spec.Schedule = "x" })
	add(w, nil, func(cj *batchv1.CronJob) { cj.Spec.Schedule = "0 0 30 2 *" })
	add(w, nil, func(cj *batchv1.CronJob) { cj.DeletionTimestamp = ptr.To(metav1.NewTime(Now)) })
	add(w, nil, func(cj *batchv1.CronJob) { cj.Status.LastScheduleTime = ptr.To(metav1.NewTime(Now.Add(time.Hour))) })
	add(w, nil, func(cj *batchv1.CronJob) {
		cj.Spec.ConcurrencyPolicy = batchv1.ForbidConcurrent
		cj.Status.Active = []corev1.ObjectReference{{Name: "j"}}
	})
	add(w, nil, func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = ptr.To[int64](1) })
	add(w, nil, func(cj *batchv1.CronJob) { cj.Annotations = map[string]string{notices.EveryAnnotation: "2h"} })
	w.Expected = &notify.Memory{Every: 2 * time.Hour, Since: Now.Add(-3 * time.Hour), Last: ptr.To(Now.Add(-3 * time.Hour))}
	all = append(all, causes.NoJob(w, "n", "gone"))
	w.Expected = &notify.Memory{Every: 2 * time.Hour, Since: Now}
	all = append(all, causes.Job(w, newJob(func(*batchv1.Job) {}), nil))
	w.Expected = nil
	failed := Cases()["exit code"]
	add(w, failed.Explain(), func(*batchv1.CronJob) {})
	for range 10 {
		jobs = append(jobs, Cases()["after one that has failed"].Job)
	}
	add(w, nil, func(*batchv1.CronJob) {})
	return all
}

// TestEveryCauseHasACase looks through the sources of daemon/causes for types of causes that nothing here provokes.
func TestEveryCauseHasACase(t *testing.T) {
	provoked := map[string]bool{}
	var see func([]why.Cause)
	see = func(list []why.Cause) {
		for _, c := range list {
			provoked[c.Type] = true
			see(c.Causes)
		}
	}
	for _, c := range Cases() {
		see(c.Explain().Causes)
		if c.Alone {
			see(c.ExplainPod().Causes)
		}
	}
	for _, said := range cronJobs() {
		see(said.Causes)
	}
	for _, c := range setCases() {
		see(c.explain().Causes)
	}
	j := jobOfSet("j", "g", "0")
	see(causes.Job(causes.World{Now: Now}, j, nil).Causes)
	written := typesOfCauses(t)
	if len(written) < 60 {
		t.Errorf("only %d types of causes were found: %v", len(written), written)
	}
	for _, kind := range written {
		if !provoked[kind] {
			t.Errorf("no case provokes the cause %s: add one to Cases", kind)
		}
	}
	t.Logf("%d types: %v", len(provoked), slices.Sorted(maps.Keys(provoked)))
}

// typesOfCauses returns the texts that are given to the field Type of a cause, or as the type to the functions that make one.
func typesOfCauses(t *testing.T) []string {
	t.Helper()
	var paths []string
	for _, of := range []string{"../*.go", "../parents/*.go"} {
		found, err := filepath.Glob(of)
		if err != nil || len(found) == 0 {
			t.Fatal("no sources", of, err)
		}
		paths = append(paths, found...)
	}
	found := map[string]bool{}
	note := func(e ast.Expr) {
		if literal, ok := e.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if value, err := strconv.Unquote(literal.Value); err == nil {
				found[value] = true
			}
		}
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Type" {
					note(n.Value)
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if field, ok := left.(*ast.SelectorExpr); ok && field.Sel.Name == "Type" && len(n.Rhs) == len(n.Lhs) {
						note(n.Rhs[i])
					}
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "tell" || f.Sel.Name == "obstacles") {
					note(n.Args[0])
				}
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(found))
}
