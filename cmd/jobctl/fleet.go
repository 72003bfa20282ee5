package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/yaml"
)

// managerRole is the ClusterRole that has what a manager of MultiKueue needs (api/rbac).
const managerRole = "jobd:multikueue-manager"

// newFleetCommand makes the commands for a machine that is a worker of MultiKueue.
func newFleetCommand(f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Let a manager of MultiKueue hand out Jobs to this machine",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { cmdutil.CheckErr(cmd.Help()) },
	}
	j := &joining{}
	join := &cobra.Command{
		Use:                   "join NAME --server URL --certificate-authority FILE [--account NAME] [--manager-namespace NAMESPACE]",
		DisableFlagsInUseLine: true,
		Short:                 "Make an account for a manager, and print what to apply in its cluster",
		Long: `Make an account here for a manager of MultiKueue, with a token that does not expire and the rights that it needs (ClusterRole ` + managerRole + `), and print the Secret and the MultiKueueCluster to be applied in the cluster of the manager. What is there already is kept, so it can be run again.

The daemon has to run with the settings multikueue and multikueue-listen. The Secret holds the token: whoever has it can run Jobs here in all namespaces. Deleting the account in kube-system takes the rights away.`,
		Example: `  # This machine becomes the worker "box1" of the cluster that the kubeconfig calls "fleet"
  jobctl fleet join box1 --server https://box1.example.com:6444 --certificate-authority /etc/jobd/ca.crt > join.yaml
  kubectl --context fleet apply -f join.yaml`,
		Args: cobra.ExactArgs(1),
		Run: func(cmd *cobra.Command, args []string) {
			j.worker = args[0]
			cmdutil.CheckErr(j.run(contextOf(cmd), f, streams))
		},
	}
	join.Flags().StringVar(&j.server, "server", "", "the address at which the manager reaches this machine (https://HOST:PORT)")
	join.Flags().StringVar(&j.authority, "certificate-authority", "", "the file of the certificate that has signed the one which is shown there, in PEM")
	join.Flags().StringVar(&j.account, "account", "multikueue-manager", "the name of the account in kube-system")
	join.Flags().StringVar(&j.namespace, "manager-namespace", "kueue-system", "the namespace of the manager in its cluster")
	cmd.AddCommand(join)
	return cmd
}

// joining is what a machine needs to become a worker.
type joining struct{ worker, server, authority, account, namespace string }

// accounts is the namespace of the manager's account: Jobs that it hands out are in others.
const accounts = "kube-system"

func (j *joining) run(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams) error {
	if bad := utilvalidation.IsDNS1123Subdomain(j.worker); len(bad) > 0 {
		return fmt.Errorf("%q cannot be the name of a worker: %s", j.worker, bad[0])
	}
	if u, err := url.Parse(j.server); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("--server %q: an address is https://HOST:PORT", j.server)
	}
	authority, err := os.ReadFile(j.authority)
	if err != nil {
		return fmt.Errorf("--certificate-authority: %w", err)
	}
	client, err := clientOfJobd(f, "a cluster has no such role: Kueue's own documents say what its workers need")
	if err != nil {
		return err
	}
	token, err := j.makeAccount(ctx, client)
	if err != nil {
		return err
	}
	fmt.Fprintf(streams.ErrOut, "account %s/%s: bound to the ClusterRole %s\n", accounts, j.account, managerRole)
	text, err := j.manifests(authority, token)
	if err != nil {
		return err
	}
	_, err = streams.Out.Write(text)
	return err
}

// makeAccount makes the account, its binding and its token, and returns the token.
func (j *joining) makeAccount(ctx context.Context, client kubernetes.Interface) ([]byte, error) {
	ignore := func(err error) error {
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	meta := metav1.ObjectMeta{Name: j.account, Namespace: accounts}
	_, err := client.CoreV1().ServiceAccounts(accounts).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{})
	if ignore(err) != nil {
		return nil, err
	}
	_, err = client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: j.account},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: managerRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: j.account, Namespace: accounts}},
	}, metav1.CreateOptions{})
	if ignore(err) != nil {
		return nil, err
	}
	secret := &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeServiceAccountToken}
	secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: j.account}
	if _, err = client.CoreV1().Secrets(accounts).Create(ctx, secret, metav1.CreateOptions{}); ignore(err) != nil {
		return nil, err
	}
	for range 50 {
		s, err := client.CoreV1().Secrets(accounts).Get(ctx, j.account, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if token := s.Data[corev1.ServiceAccountTokenKey]; len(token) > 0 {
			return token, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, errors.New("the Secret of the account has got no token: is there another Secret of that name?")
}

// manifests returns what is to be applied in the cluster of the manager.
func (j *joining) manifests(authority, token []byte) ([]byte, error) {
	kubeconfig, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{j.worker: {Server: j.server, CertificateAuthorityData: authority}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{j.worker: {Token: string(token)}},
		Contexts:       map[string]*clientcmdapi.Context{j.worker: {Cluster: j.worker, AuthInfo: j.worker}},
		CurrentContext: j.worker,
	})
	if err != nil {
		return nil, err
	}
	var out []byte
	for _, obj := range []any{
		map[string]any{
			"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": j.worker, "namespace": j.namespace},
			"data": map[string][]byte{"kubeconfig": kubeconfig},
		},
		map[string]any{
			"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "MultiKueueCluster", "metadata": map[string]any{"name": j.worker},
			"spec": map[string]any{"clusterSource": map[string]any{"kubeConfig": map[string]any{"location": j.worker, "locationType": "Secret"}}},
		},
	} {
		text, err := yaml.Marshal(obj)
		if err != nil {
			return nil, err
		}
		out = append(append(out, "---\n"...), text...)
	}
	return out, nil
}
