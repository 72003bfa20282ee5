package main

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// ofLeft prints what a Job has left that is gone (batch.KeepLogsAnnotation), and reports whether the arguments name such a Job. Kubectl's command
// asks for the object first.
func (l *jobLogs) ofLeft(cmd *cobra.Command, getter genericclioptions.RESTClientGetter, args []string) (found bool, err error) {
	name, ok := jobNamed(args)
	if !ok {
		return false, nil
	}
	client, namespace, err := l.client(getter)
	if err != nil || client == nil {
		return false, nil // kubectl says what is wrong
	}
	ctx := contextOf(cmd)
	if !isGone(ctx, client, namespace, name, len(args) == 1 && !strings.Contains(args[0], "/")) {
		return false, nil
	}
	asked, err := l.options()
	if err != nil {
		return false, nil
	}
	request := client.BatchV1().RESTClient().Get().Namespace(namespace).Resource("jobs").Name(name).SubResource("log")
	for name, values := range l.query(asked, l.said("all-containers"), l.sources()) {
		for _, v := range values {
			request.Param(name, v)
		}
	}
	log, err := request.Stream(ctx)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return true, err
	}
	defer log.Close()
	_, err = io.Copy(l.out, log)
	return true, err
}

// client returns one of a jobd, nil of a cluster.
func (l *jobLogs) client(getter genericclioptions.RESTClientGetter) (client *kubernetes.Clientset, namespace string, err error) {
	if cluster, err := l.isCluster(getter); err != nil || cluster {
		return nil, "", err
	}
	if namespace, _, err = getter.ToRawKubeConfigLoader().Namespace(); err != nil {
		return nil, "", err
	}
	config, err := getter.ToRESTConfig()
	if err != nil {
		return nil, "", err
	}
	client, err = kubernetes.NewForConfig(config)
	return client, namespace, err
}

// isGone reports whether there is no Job of a name, and, if the name stands alone, no pod.
func isGone(ctx context.Context, client kubernetes.Interface, namespace, name string, alone bool) bool {
	if alone {
		if _, err := client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return false
		}
	}
	_, err := client.BatchV1().Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

// jobNamed returns the name of the one Job that arguments name: jobs/pi, job pi, or pi.
func jobNamed(args []string) (name string, ok bool) {
	kind, name, slash := strings.Cut(strings.Join(args, "/"), "/")
	if !slash {
		return kind, kind != ""
	}
	kind, _, _ = strings.Cut(kind, ".")
	return name, (kind == "job" || kind == "jobs") && name != "" && !strings.Contains(name, "/")
}

// options are what kubectl makes of the flags.
func (l *jobLogs) options() (*corev1.PodLogOptions, error) {
	o := &corev1.PodLogOptions{Timestamps: l.said("timestamps"), Previous: l.said("previous"), Follow: l.said("follow")}
	o.Container, _ = l.flags.GetString("container")
	if tail, _ := l.flags.GetInt64("tail"); tail >= 0 {
		o.TailLines = &tail
	}
	if most, _ := l.flags.GetInt64("limit-bytes"); most > 0 {
		o.LimitBytes = &most
	}
	if since, _ := l.flags.GetDuration("since"); since > 0 {
		o.SinceSeconds = ptr.To(int64((since + time.Second - 1) / time.Second))
	}
	if from, _ := l.flags.GetString("since-time"); from != "" {
		t, err := time.Parse(time.RFC3339, from)
		if err != nil {
			return nil, err
		}
		o.SinceTime = &metav1.Time{Time: t}
	}
	return o, l.setStream(o)
}
