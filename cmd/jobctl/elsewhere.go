package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

const (
	// lookElsewhere is how long it may take to find out where a Job is.
	lookElsewhere = 3 * time.Second
	// mostElsewhere is how many namespaces with a Job of the same name are named, and how many Jobs whose names begin like it.
	mostElsewhere = 3
	// mostLike is among how many Jobs of the namespace those are looked for.
	mostLike = 500
)

// elsewhere says where a Job is that was not found: in another namespace than was named, or in the history, or which Jobs have a name that
// was generated from this one. It is empty if there is none of that, or if whoever asks may not know.
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
		return generatedFrom(ctx, client, namespace, name)
	}
	var found []string
	for i := range jobs.Items {
		found = append(found, "-n "+jobs.Items[i].Namespace)
	}
	return fmt.Sprintf("Another namespace has a Job of this name: %s", strings.Join(found, ", "))
}

// generatedFrom names the latest Jobs of a namespace whose names were generated from one, as submit does it from an image or a script.
func generatedFrom(ctx context.Context, client kubernetes.Interface, namespace, name string) string {
	jobs, err := client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{Limit: mostLike})
	if err != nil {
		return ""
	}
	like := slices.DeleteFunc(jobs.Items, func(j batchv1.Job) bool { return j.GenerateName != name+"-" })
	if len(like) == 0 {
		return ""
	}
	slices.SortFunc(like, func(a, b batchv1.Job) int { return b.CreationTimestamp.Compare(a.CreationTimestamp.Time) })
	var names []string
	for _, j := range like[:min(len(like), mostElsewhere)] {
		names = append(names, "jobs/"+j.Name)
	}
	return "The latest whose names were made from this one: " + strings.Join(names, ", ")
}
