package scheme

import (
	"net/url"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jobd/jobd/api/batch"
)

func TestFlagsInQueriesAreReadAsInACluster(t *testing.T) {
	var (
		log     corev1.PodLogOptions
		exec    corev1.PodExecOptions
		attach  corev1.PodAttachOptions
		jobLog  batch.JobLogOptions
		options = []struct {
			from  schema.GroupVersion
			into  runtime.Object
			flags map[string]*bool
		}{
			{corev1.SchemeGroupVersion, &log, map[string]*bool{
				"follow": &log.Follow, "previous": &log.Previous, "timestamps": &log.Timestamps,
				"insecureSkipTLSVerifyBackend": &log.InsecureSkipTLSVerifyBackend,
			}},
			{corev1.SchemeGroupVersion, &exec, map[string]*bool{
				"stdin": &exec.Stdin, "stdout": &exec.Stdout, "stderr": &exec.Stderr, "tty": &exec.TTY,
			}},
			{corev1.SchemeGroupVersion, &attach, map[string]*bool{
				"stdin": &attach.Stdin, "stdout": &attach.Stdout, "stderr": &attach.Stderr, "tty": &attach.TTY,
			}},
			{batchv1.SchemeGroupVersion, &jobLog, map[string]*bool{
				"follow": &jobLog.Follow, "previous": &jobLog.Previous, "timestamps": &jobLog.Timestamps,
				"allContainers": &jobLog.AllContainers, "allRestarts": &jobLog.AllRestarts, "prefix": &jobLog.Prefix,
				"missing": &jobLog.Missing,
			}},
		}
	)
	for value, want := range map[string]bool{
		"true": true, "True": true, "1": true, "yes": true, "": true,
		"false": false, "False": false, "FALSE": false, "0": false,
	} {
		for _, o := range options {
			for name, flag := range o.flags {
				if err := ParameterCodec.DecodeParameters(url.Values{name: {value}}, o.from, o.into); err != nil {
					t.Fatal(err)
				}
				if *flag != want {
					t.Errorf("%T: %s=%q is read as %v", o.into, name, value, *flag)
				}
			}
		}
	}
	for _, o := range options {
		if err := ParameterCodec.DecodeParameters(url.Values{"container": {"c"}}, o.from, o.into); err != nil {
			t.Fatal(err)
		}
		for name, flag := range o.flags {
			if *flag {
				t.Errorf("%T: %s is set when the query does not name it", o.into, name)
			}
		}
	}
}
