package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

const (
	// lookElsewhere is how long it may take to find out where a Job is.
	lookElsewhere = 3 * time.Second
	// mostElsewhere is how many namespaces with a Job of the same name are named.
	mostElsewhere = 3
)

// elsewhere says where a Job is that was not found: in another namespace than was named, or in the history. It is empty if it is in neither, or
// if whoever asks may not know.
func elsewhere(f cmdutil.Factory, name string) string {
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return ""
	}
	client, err := f.KubernetesClientSet()
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookElsewhere)
	defer cancel()
	if past, err := historyOf(ctx, client, namespace, name, "", false); err == nil && past != nil {
		return whatHistoryHas(past)
	}
	jobs, err := client.BatchV1().Jobs(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name, Limit: mostElsewhere})
	if err != nil || len(jobs.Items) == 0 {
		return ""
	}
	var found []string
	for i := range jobs.Items {
		found = append(found, "-n "+jobs.Items[i].Namespace)
	}
	return fmt.Sprintf("Another namespace has a Job of this name: %s", strings.Join(found, ", "))
}
