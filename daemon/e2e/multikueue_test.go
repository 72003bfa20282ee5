package e2e

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/kueue"
)

// manager makes the requests of a Kueue manager 0.19.2 to a worker, in its encodings: JSON for what extends a cluster, protobuf for Jobs.
// They were recorded from one; see /docs/clusters.md.
type manager struct {
	t      *testing.T
	json   *dynamic.DynamicClient
	proto  *kubernetes.Clientset
	parts  metadata.Interface
	origin string
}

var (
	workloads = kueue.GroupVersion.WithResource("workloads")
	jobs      = batchv1.SchemeGroupVersion.WithResource("jobs")
)

// managerOf returns a manager, whose account has no rights but those of the role that there is for managers.
func managerOf(d *daemon) *manager {
	d.t.Helper()
	d.apply(`
apiVersion: v1
kind: ServiceAccount
metadata: {name: manager}
---
apiVersion: v1
kind: Secret
metadata: {name: manager, annotations: {kubernetes.io/service-account.name: manager}}
type: kubernetes.io/service-account-token
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "jobd:multikueue-manager"}
subjects: [{kind: ServiceAccount, name: manager, namespace: default}]
`)
	var secret *corev1.Secret
	d.eventually("the account has a token", func() (err error) {
		if secret, err = d.CoreV1().Secrets("default").Get(d.t.Context(), "manager", metav1.GetOptions{}); err == nil && len(secret.Data["token"]) == 0 {
			err = errors.New("it is empty")
		}
		return err
	})
	return managerBy(d, &rest.Config{
		Host: "https://" + d.address(), BearerToken: string(secret.Data["token"]), QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: secret.Data["ca.crt"]},
	})
}

// managerBy returns a manager that has these rights and reaches the daemon so.
func managerBy(d *daemon, as *rest.Config) *manager {
	d.t.Helper()
	m := &manager{t: d.t, origin: "bench"}
	inProto := rest.CopyConfig(as)
	inProto.ContentType, inProto.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+", */*"
	var err error
	if m.json, err = dynamic.NewForConfig(as); err == nil {
		if m.proto, err = kubernetes.NewForConfig(inProto); err == nil {
			m.parts, err = metadata.NewForConfig(as)
		}
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

// address returns where the daemon listens.
func (d *daemon) address() string {
	i := slices.Index(d.flags, "--listen")
	return d.flags[i+1]
}

// persist makes a request until it is answered: the daemon may be killed at any time.
func (m *manager) persist(what string, do func(ctx context.Context) error) {
	m.t.Helper()
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Second)
		err = do(ctx)
		cancel()
		if status := apierrors.APIStatus(nil); err == nil || errors.As(err, &status) && !apierrors.IsServiceUnavailable(err) {
			break
		}
	}
	if err != nil {
		m.t.Fatalf("%s: %v", what, err)
	}
}

// connect asks for what a manager needs to know before it says that a worker is connected: all kinds of its default configuration.
func (m *manager) connect() {
	m.t.Helper()
	for path, kinds := range map[string][]string{
		"/apis/kueue.x-k8s.io/v1beta2":         {"Workload"},
		"/apis/batch/v1":                       {"Job"},
		"/apis/jobset.x-k8s.io/v1alpha2":       {"JobSet"},
		"/apis/kubeflow.org/v2beta1":           {"MPIJob"},
		"/apis/ray.io/v1":                      {"RayCluster", "RayJob", "RayService"},
		"/apis/workload.codeflare.dev/v1beta2": {"AppWrapper"},
		"/apis/trainer.kubeflow.org/v1alpha1":  {"TrainJob"},
		"/apis/leaderworkerset.x-k8s.io/v1":    {"LeaderWorkerSet"},
		"/apis/apps/v1":                        {"Deployment", "StatefulSet"},
		"/api/v1":                              {"Pod"},
	} {
		m.persist(path, func(ctx context.Context) error {
			body, err := m.proto.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json, */*").DoRaw(ctx)
			if err != nil {
				return err
			}
			list := &metav1.APIResourceList{}
			if err := json.Unmarshal(body, list); err != nil {
				return err
			}
			for _, kind := range kinds {
				if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind }) {
					m.t.Errorf("%s has no %s", path, kind)
				}
			}
			return nil
		})
	}
	// It watches all of these, and is not connected as long as one of the watches is refused.
	for _, gvr := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"}, {Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}, {Group: "kubeflow.org", Version: "v2beta1", Resource: "mpijobs"},
		{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"},
		{Group: "ray.io", Version: "v1", Resource: "rayclusters"}, {Group: "ray.io", Version: "v1", Resource: "rayjobs"},
		{Group: "ray.io", Version: "v1", Resource: "rayservices"}, {Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"},
		{Group: "workload.codeflare.dev", Version: "v1beta2", Resource: "appwrappers"},
	} {
		m.persist(gvr.Resource, func(ctx context.Context) error {
			w, err := m.json.Resource(gvr).Watch(ctx, m.selected())
			if err == nil {
				w.Stop()
			}
			return err
		})
	}
}

func (m *manager) selected() metav1.ListOptions {
	return metav1.ListOptions{LabelSelector: kueue.OriginLabel + "=" + m.origin, AllowWatchBookmarks: true}
}

// make makes the Workload of a Job, as the manager copies its own.
func (m *manager) make(name, cpu string, active bool) {
	m.t.Helper()
	wl := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": kueue.GroupVersion.String(), "kind": "Workload",
		"metadata": map[string]any{"name": name, "namespace": "default", "labels": map[string]any{kueue.OriginLabel: m.origin}},
		"spec": map[string]any{
			"queueName": "user-queue", "priority": int64(0), "active": active, "fieldOfALaterVersion": map[string]any{"x": "1"},
			"podSets": []any{map[string]any{"name": "main", "count": int64(1), "template": map[string]any{
				"metadata": map[string]any{}, "spec": map[string]any{"restartPolicy": "Never", "containers": []any{map[string]any{
					"name": "c", "image": "busybox:1.36", "resources": map[string]any{"requests": map[string]any{"cpu": cpu}},
				}}},
			}}},
		},
	}}
	m.persist("make "+name, func(ctx context.Context) error {
		made, err := m.json.Resource(workloads).Namespace("default").Create(ctx, wl, metav1.CreateOptions{})
		if err != nil {
			return ignore(err, apierrors.IsAlreadyExists)
		}
		if !equalJSON(made.Object["spec"], wl.Object["spec"]) {
			m.t.Errorf("%s is kept as %v", name, made.Object["spec"])
		}
		return nil
	})
}

func equalJSON(a, b any) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return string(x) == string(y)
}

func ignore(err error, is func(error) bool) error {
	if is(err) {
		return nil
	}
	return err
}

// workload returns the conditions of a Workload that are true, with their reasons; nil if it is gone.
func (m *manager) workload(name string) (is map[string]string) {
	m.t.Helper()
	m.persist("read "+name, func(ctx context.Context) error {
		u, err := m.json.Resource(workloads).Namespace("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return ignore(err, apierrors.IsNotFound)
		}
		wl := &kueue.Workload{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, wl); err != nil {
			return err
		}
		is = map[string]string{}
		for _, c := range kueue.Conditions(wl) {
			if c.Status == metav1.ConditionTrue {
				is[c.Type] = c.Reason
			}
		}
		return nil
	})
	return is
}

// until waits until a condition of a Workload is true, and returns why.
func (m *manager) until(d *daemon, name, condition string) (reason string) {
	m.t.Helper()
	d.eventually(name+" is "+condition, func() error {
		is := m.workload(name)
		if reason = is[condition]; reason == "" {
			return fmt.Errorf("it is %v", is)
		}
		return nil
	})
	return reason
}

// dispatch makes the Job of an admitted Workload, after the questions that a manager asks before.
func (m *manager) dispatch(workload, name, script, cpu string) {
	m.t.Helper()
	m.persist("ask for "+name, func(ctx context.Context) error {
		_, err := m.parts.Resource(jobs).Namespace("default").Get(ctx, name, metav1.GetOptions{})
		return ignore(err, apierrors.IsNotFound)
	})
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{kueue.OriginLabel: m.origin, batch.KueueLabel: "user-queue"},
		Annotations: map[string]string{batch.PrebuiltKey: workload},
	}}
	j.Spec.Suspend, j.Spec.BackoffLimit = ptr.To(true), ptr.To[int32](0)
	j.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
		Name: "c", Image: "busybox:1.36", Command: []string{"sh", "-c", script},
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}},
	}}}
	m.persist("make "+name, func(ctx context.Context) error {
		_, err := m.proto.BatchV1().Jobs("default").Create(ctx, j, metav1.CreateOptions{})
		return ignore(err, apierrors.IsAlreadyExists)
	})
}

func (m *manager) job(name string) (j *batchv1.Job) {
	m.t.Helper()
	m.persist("read "+name, func(ctx context.Context) (err error) {
		j, err = m.proto.BatchV1().Jobs("default").Get(ctx, name, metav1.GetOptions{})
		return ignore(err, apierrors.IsNotFound)
	})
	return j
}

// withdraw deletes a Job and its Workload, in this order, as a manager does once it has read the end, or has chosen another worker.
func (m *manager) withdraw(workload, name string) {
	m.t.Helper()
	m.persist("delete "+name, func(ctx context.Context) error {
		err := m.proto.BatchV1().Jobs("default").Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		return ignore(err, apierrors.IsNotFound)
	})
	m.persist("delete "+workload, func(ctx context.Context) error {
		return ignore(m.json.Resource(workloads).Namespace("default").Delete(ctx, workload, metav1.DeleteOptions{}), apierrors.IsNotFound)
	})
}

// The whole way of a Job that a manager hands out, with the daemon killed after each step of it, and of one that fails.
func TestMultiKueue(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none", "--multikueue", "--allocatable", "cpu=2,memory=4Gi", "--listen", freePort(t))
	m := managerOf(d)
	m.connect()
	again := func() {
		t.Helper()
		d.kill()
		d.serve()
	}
	for name, c := range map[string]struct{ script, reason string }{
		"good": {"echo ran >> /proc/1/fd/1; sleep 3", "Succeeded"},
		"bad":  {"echo ran; exit 7", "Failed"},
	} {
		wl := "job-" + name + "-1"
		m.make(wl, "1", true)
		again()
		m.until(d, wl, kueue.Admitted)
		again()
		m.dispatch(wl, name, c.script, "1")
		again()
		d.eventually("it goes on", func() error {
			if j := m.job(name); j == nil || ptr.Deref(j.Spec.Suspend, false) {
				return fmt.Errorf("it is %+v", j)
			}
			return nil
		})
		again()
		if reason := m.until(d, wl, kueue.Finished); reason != c.reason {
			t.Errorf("%s has %s", name, reason)
		}
		again()
		j := m.job(name)
		if s := j.Status; s.Succeeded+s.Failed != 1 {
			t.Errorf("%s has run %d times with success and %d without", name, s.Succeeded, s.Failed)
		}
		m.withdraw(wl, name)
		again()
		d.eventually("nothing is left", func() error {
			if j, is := m.job(name), m.workload(wl); j != nil && j.Name != "" || is != nil {
				return fmt.Errorf("there are %v and %v", j, is)
			}
			return nil
		})
		if out := d.jobctl("history", name); !strings.Contains(out, name) {
			t.Errorf("the history says %s", out)
		}
		d.eventually("its log is there", func() error {
			if out, err := d.try("jobctl", nil, "logs", "jobs/"+name); err != nil || !strings.Contains(out, "ran\n") {
				return fmt.Errorf("%v: %s", err, out)
			}
			return nil
		})
	}
}

// What a manager changes: the condition that stops a Job is applied beside those of the worker; a larger Job waits; a cordoned machine
// sends away what has not started.
func TestMultiKueueStopsAndCordons(t *testing.T) {
	t.Parallel()
	d := start(t, "--network", "none", "--multikueue", "--allocatable", "cpu=2,memory=4Gi", "--listen", freePort(t))
	m := managerOf(d)
	m.make("job-a-1", "1", true)
	m.until(d, "job-a-1", kueue.Admitted)
	m.dispatch("job-a-1", "a", "sleep 1000", "1")
	d.running("a", 1)
	m.make("job-large-1", "3", true)
	m.make("job-next-1", "1", true)
	m.until(d, "job-next-1", kueue.Admitted)
	d.jobctl("cordon", d.node())
	if reason := m.until(d, "job-next-1", kueue.Evicted); reason != "NodeUnavailable" {
		t.Errorf("it is evicted for %s", reason)
	}
	if is := m.workload("job-a-1"); is[kueue.Admitted] == "" {
		t.Errorf("what runs is %v", is)
	}
	d.jobctl("uncordon", d.node())
	m.until(d, "job-next-1", kueue.Admitted)
	if is := m.workload("job-large-1"); len(is) != 0 {
		t.Errorf("what does not fit is %v", is)
	}
	patch, err := json.Marshal(map[string]any{
		"apiVersion": kueue.GroupVersion.String(), "kind": "Workload", "metadata": map[string]any{"name": "job-a-1", "namespace": "default"},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": kueue.DeactivationTarget, "status": "True", "reason": "MaximumExecutionTimeExceeded", "message": "too long",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": int64(1),
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.persist("apply the condition", func(ctx context.Context) error {
		_, err := m.json.Resource(workloads).Namespace("default").Patch(ctx, "job-a-1", types.ApplyPatchType, patch,
			metav1.PatchOptions{FieldManager: "kueue-admission", Force: ptr.To(true)}, "status")
		return err
	})
	if reason := m.until(d, "job-a-1", kueue.Evicted); reason != "DeactivatedDueToMaximumExecutionTimeExceeded" {
		t.Errorf("it is evicted for %s", reason)
	}
	d.eventually("it is suspended", func() error {
		j := m.job("a")
		if !ptr.Deref(j.Spec.Suspend, false) || j.Status.Active > 0 {
			return fmt.Errorf("it is %+v", j.Status)
		}
		return nil
	})
	m.persist("change the priority", func(ctx context.Context) error {
		u, err := m.json.Resource(workloads).Namespace("default").Get(ctx, "job-next-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := unstructured.SetNestedField(u.Object, int64(7), "spec", "priority"); err != nil {
			return err
		}
		_, err = m.json.Resource(workloads).Namespace("default").Update(ctx, u, metav1.UpdateOptions{})
		return err
	})
	if is := m.workload("job-next-1"); is[kueue.Admitted] == "" {
		t.Errorf("after its priority has changed it is %v", is)
	}
	list, err := m.json.Resource(workloads).List(t.Context(), m.selected())
	if err != nil || len(list.Items) != 3 {
		t.Errorf("the manager finds %d Workloads: %v", len(list.Items), err)
	}
	for _, path := range []string{"/api/v1/namespaces/default/secrets", "/api/v1/namespaces/default/pods", "/apis/batch/v1/cronjobs"} {
		if err := m.proto.RESTClient().Get().AbsPath(path).Do(t.Context()).Error(); !apierrors.IsForbidden(err) {
			t.Errorf("the manager reads %s: %v", path, err)
		}
	}
}

// A machine joins a fleet: a manager elsewhere reaches it with what the command has printed, at an address of its own, where nobody else
// gets in, with a certificate that is renewed without a restart.
func TestFleetJoin(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), freePort(t)
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writeCertificate(t, cert, key)
	d := start(t, "--network", "none", "--multikueue", "--multikueue-listen", at, "--multikueue-cert-file", cert, "--multikueue-key-file", key,
		"--listen", freePort(t))
	join := func() (*rest.Config, map[string]any) {
		t.Helper()
		cmd := exec.Command(filepath.Join(d.build, "jobctl"), "--socket", d.socket(), "fleet", "join", "box1", "--server", "https://"+at,
			"--certificate-authority", cert)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("join: %v: %s", err, out)
		}
		parts := strings.Split(string(out), "---\n")
		secret, cluster := &corev1.Secret{}, map[string]any{}
		if err := errors.Join(yaml.Unmarshal([]byte(parts[1]), secret), yaml.Unmarshal([]byte(parts[2]), &cluster)); err != nil {
			t.Fatal(err)
		}
		as, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
		if err != nil || secret.Namespace != "kueue-system" {
			t.Fatalf("the Secret is %s/%s: %v", secret.Namespace, secret.Name, err)
		}
		as.QPS = -1
		return as, cluster
	}
	as, cluster := join()
	again, _ := join()
	if cluster["kind"] != "MultiKueueCluster" || as.BearerToken != again.BearerToken {
		t.Errorf("it prints %v; joined again, the token is the same: %v", cluster, as.BearerToken == again.BearerToken)
	}
	m := managerBy(d, as)
	m.connect()
	m.make("job-a-1", "100m", true)
	m.until(d, "job-a-1", kueue.Admitted)

	token, err := os.ReadFile(filepath.Join(d.root, "tls", "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	for name, bearer := range map[string]string{"the administrator": strings.TrimSpace(string(token)), "somebody": "x", "nobody": ""} {
		other := rest.CopyConfig(as)
		other.BearerToken = bearer
		client, err := kubernetes.NewForConfig(other)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.BatchV1().Jobs("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
			t.Errorf("%s gets in: %v", name, err)
		}
	}

	writeCertificate(t, cert, key)
	if err := os.Chtimes(cert, time.Now().Add(time.Second), time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	renewed, _ := join()
	m = managerBy(d, renewed)
	if is := m.workload("job-a-1"); is[kueue.Admitted] == "" {
		t.Errorf("with the new certificate it is %v", is)
	}
	m.withdraw("job-a-1", "a")
}

// writeCertificate writes a certificate for the loopback address that has signed itself.
func writeCertificate(t *testing.T, cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
