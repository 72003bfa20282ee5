package server

import (
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/tokens"
)

// warned collects the warnings that come with answers.
type warned struct{ said []string }

func (w *warned) HandleWarningHeader(_ int, _, text string) { w.said = append(w.said, text) }

func TestPodsThatUseTheAPIWithoutARole(t *testing.T) {
	ts := startServer(t)
	ts.account(t, "nobody", "")
	ts.account(t, "reader", core.RoleRead)
	const command = "kubectl create rolebinding NAME --clusterrole view --serviceaccount default:%s --namespace default"
	token := func(audience string) *corev1.Volume {
		return &corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience, Path: "token"}}},
		}}}
	}
	copied := token("") // from a pod that was read from an API
	copied.Name = "kube-api-access-abcde"
	for i, tc := range []struct {
		name, account string
		automount     *bool
		volume        *corev1.Volume
		warns         bool
	}{
		{"the default account", "", nil, nil, false},
		{"the default account by its name", "default", nil, nil, false},
		{"the default account's token is mounted, as Terraform has it", "", ptr.To(true), nil, false},
		{"an account without a role, as charts make it", "nobody", nil, nil, false},
		{"an account without a role, whose token is mounted", "nobody", ptr.To(true), nil, false},
		{"an account without a role, whose token nobody wants", "nobody", ptr.To(false), nil, false},
		{"a token for the API", "nobody", nil, token(""), true},
		{"a token for the API, beside which none is mounted", "nobody", ptr.To(false), token(tokens.Audience), true},
		{"a token of the default account for the API", "", nil, token(""), true},
		{"a token for another service", "nobody", nil, token("vault"), false},
		{"the volume that is added to pods", "nobody", nil, copied, false},
		{"an account with a role", "reader", nil, token(""), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := &warned{}
			config := ts.config()
			config.WarningHandler = w
			c, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			pod := newPod(fmt.Sprint("p", i), "c")
			pod.Spec.ServiceAccountName, pod.Spec.AutomountServiceAccountToken = tc.account, tc.automount
			if tc.volume != nil {
				pod.Spec.Volumes = append(pod.Spec.Volumes, *tc.volume)
			}
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}}
			job.Spec.Template.Spec = pod.Spec
			job.Spec.Template.Spec.RestartPolicy = "Never"
			cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}}
			cron.Spec.Schedule, cron.Spec.JobTemplate.Spec = "@hourly", job.Spec
			mustMake(t, c.CoreV1().Pods("default"), pod)
			mustMake(t, c.BatchV1().Jobs("default"), job)
			mustMake(t, c.BatchV1().CronJobs("default"), cron)
			var want []string
			if tc.warns {
				account := tc.account
				if account == "" {
					account = "default"
				}
				for _, path := range []string{"spec", "spec.template.spec", "spec.jobTemplate.spec.template.spec"} {
					want = append(want, path+".serviceAccountName: "+
						fmt.Sprintf("no RoleBinding or ClusterRoleBinding names the ServiceAccount %q, so its token may do nothing: ", account)+
						fmt.Sprintf(command, account))
				}
			}
			if got := strings.Join(w.said, "\n"); got != strings.Join(want, "\n") {
				t.Errorf("warnings\n%s\nwant\n%s", got, strings.Join(want, "\n"))
			}
		})
	}
}

func TestARefusalSaysThatAnAccountHasNoRole(t *testing.T) {
	ts := startServer(t)
	for role, says := range map[string]bool{"": true, core.RoleRead: false} {
		account := ts.account(t, "a"+role, role)
		c := mustClient(t, &rest.Config{
			Host: "https://" + ts.tls.String(), BearerToken: ts.token(t, account, nil).Status.Token,
			TLSClientConfig: rest.TLSClientConfig{CAData: ts.authority.Certificate()},
		})
		_, err := c.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
		want := "kubectl create rolebinding NAME --clusterrole view --serviceaccount default:" + account + " --namespace default"
		if !apierrors.IsForbidden(err) || strings.Contains(err.Error(), want) != says {
			t.Errorf("role %q: %v", role, err)
		}
	}
}
