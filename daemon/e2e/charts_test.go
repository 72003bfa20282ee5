package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tool returns a tool that `make e2e-tools` has built, or the machine's own of the name given, if any. Without one the
// test is skipped.
func tool(t *testing.T, name, own string) string {
	t.Helper()
	needContainers(t)
	if path := filepath.Join(os.Getenv("JOBD_E2E_TOOLS"), name); os.Getenv("JOBD_E2E_TOOLS") != "" {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	if own != "" {
		if path, err := exec.LookPath(own); err == nil {
			return path
		}
	}
	t.Skipf("needs %s: make e2e-tools or e2e-clients", name)
	return ""
}

// clientOf returns a function that runs a tool against a daemon that listens. It returns what the tool prints.
func (d *daemon) clientOf(path string) func(args ...string) (string, error) {
	home := d.t.TempDir()
	return func(args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(d.t.Context(), patience+10*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(d.root, "kubeconfig"), "HOME="+home, "NO_PROXY=127.0.0.1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
}

// refusedCharts are those that need kinds that jobd does not have, with what users read.
var refusedCharts = map[string][]string{
	"web-app":   {"jobd runs Jobs and does not have the kind Deployment (apps): make it a Job"},
	"with-crds": {"CustomResourceDefinition"},
}

// TestCharts takes each chart of testdata/charts through the life of a release, all at once. With the machine's own helm,
// where `make e2e-tools` has built none, these are the three that need most of Helm.
func TestCharts(t *testing.T) {
	t.Parallel()
	for name, own := range map[string]string{"helm3": "helm", "helm4": ""} {
		t.Run(name, func(t *testing.T) {
			helm := tool(t, name, own)
			hosts := standInRegistry(t, needKubectl(t))
			d := start(t, "--listen", freePort(t), "--registry-hosts", hosts, "--allocatable", "cpu=96,memory=512Gi")
			run := d.clientOf(helm)
			which := "*"
			if os.Getenv("JOBD_E2E_TOOLS") == "" {
				which = "*-hook*"
			}
			charts, err := filepath.Glob("../../testdata/charts/" + which)
			if err != nil || len(charts) == 0 {
				t.Fatal("there are no charts", err)
			}
			problems := make([]error, len(charts))
			var living errgroup.Group
			living.SetLimit(4)
			for i, chart := range charts {
				living.Go(func() error {
					problems[i] = d.life(run, chart)
					return nil
				})
			}
			_ = living.Wait()
			for i, chart := range charts {
				t.Run(filepath.Base(chart), func(t *testing.T) {
					if problems[i] != nil {
						t.Error(problems[i])
					}
				})
			}
		})
	}
}

// life installs a chart, tests it, upgrades it, goes back, and uninstalls it. Nothing is left but what is to be kept.
func (d *daemon) life(helm func(...string) (string, error), chart string) error {
	name := filepath.Base(chart)
	for _, step := range [][]string{
		{"install", "r", chart, "--create-namespace", "--wait", "--wait-for-jobs", patiently},
		{"test", "r", patiently},
		{"upgrade", "r", chart, "--wait", "--wait-for-jobs", patiently},
		{"rollback", "r", "1", "--wait", "--wait-for-jobs", patiently},
		{"uninstall", "r", "--wait", patiently},
	} {
		out, err := helm(append(step, "--namespace", name)...)
		if words, ok := refusedCharts[name]; ok {
			if err == nil {
				return fmt.Errorf("it is installed: %s", out)
			}
			for _, want := range words {
				if !strings.Contains(out, want) {
					return fmt.Errorf("it does not say %q: %s", want, out)
				}
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w: %s", step[0], err, out)
		}
	}
	return d.nothingLeft(name)
}

// nothingLeft looks for what a release has left in its namespace, apart from hooks and what its chart keeps.
func (d *daemon) nothingLeft(namespace string) error {
	out, err := d.try(
		"jobctl", nil, "get", "jobs,cronjobs,services,secrets,configmaps,pvc,serviceaccounts,roles,rolebindings,limitranges",
		"-n", namespace, "-o", "json",
	)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for _, o := range list.Items {
		_, hook := o.Annotations["helm.sh/hook"]
		if own := o.Name == "default" || o.Name == "kube-root-ca.crt"; !own && !hook && o.Annotations["helm.sh/resource-policy"] != "keep" {
			return fmt.Errorf("left over: %s %s", o.Kind, o.Name)
		}
	}
	return nil
}
