package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/jobd/jobd/internal/handover"
	"github.com/jobd/jobd/internal/printable"
)

// selection is which objects a command is about: some by name, or all, or those with a label.
type selection struct {
	labels          string
	all, everywhere bool
}

func (s *selection) addFlags(cmd *cobra.Command) {
	cmdutil.AddLabelSelectorFlagVar(cmd, &s.labels)
	cmd.Flags().BoolVar(&s.all, "all", false, "All of them in the namespace")
	cmd.Flags().BoolVarP(&s.everywhere, "all-namespaces", "A", false, "With --all or --selector: include all namespaces")
}

// selecting lets a command be about a selection of objects of these kinds.
func selecting(
	f cmdutil.Factory, kinds []string, cmd *cobra.Command, run func(ctx context.Context, which selection, args []string) error,
) *cobra.Command {
	var which selection
	cmd.DisableFlagsInUseLine = true
	cmd.ValidArgsFunction = completion.SpecifiedResourceTypeAndNameCompletionFunc(f, kinds)
	cmd.Run = func(cmd *cobra.Command, args []string) { cmdutil.CheckErr(run(contextOf(cmd), which, args)) }
	which.addFlags(cmd)
	return cmd
}

// named reports whether the objects are named, and not selected.
func (s *selection) named() bool { return s.labels == "" && !s.all }

// find returns the objects that the arguments name and the flags select. Without a kind they are Jobs.
func (s *selection) find(f cmdutil.Factory, args []string) ([]*resource.Info, error) {
	switch {
	case len(args) == 0 && s.named():
		return nil, errors.New("name the Jobs or CronJobs, or select them with --selector or --all")
	case s.everywhere && s.named():
		return nil, errors.New("--all-namespaces needs --selector or --all")
	case len(args) == 0:
		args = []string{"jobs"}
	case len(args) == 1 && s.named() && !strings.Contains(args[0], "/"):
		args = []string{"jobs", args[0]}
	}
	namespace, _, err := f.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, err
	}
	found, err := withKinds(f.NewBuilder()).
		NamespaceParam(namespace).DefaultNamespace().AllNamespaces(s.everywhere).
		LabelSelectorParam(s.labels).ResourceTypeOrNameArgs(s.all, args...).
		ContinueOnError().Latest().Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	return found, checkNames(found)
}

// checkNames refuses what no server calls an object that means well: the names are printed.
func checkNames(found []*resource.Info) error {
	for _, info := range found {
		obj, err := meta.Accessor(info.Object)
		if err != nil {
			return err
		}
		if name := obj.GetNamespace() + "/" + obj.GetName(); printable.Line(name) != name {
			return fmt.Errorf("the server calls an object %q, which is no name", name)
		}
	}
	return nil
}

// eachOf calls do for each of what was found. One that is refused does not keep it from the others. If there is none, it says so in
// the words of none.
func eachOf(found []*resource.Info, errOut io.Writer, none string, do func(*resource.Info) error) error {
	if len(found) == 0 {
		fmt.Fprintln(errOut, none)
	}
	failed := make([]error, 0, len(found))
	for _, info := range found {
		failed = append(failed, do(info))
	}
	return errors.Join(failed...)
}

// noneFound is what kubectl says if nothing is selected.
const noneFound = "No resources found"

// clientOfJobd returns a client of the server. If that is a cluster, the error says what is so there.
func clientOfJobd(f cmdutil.Factory, inCluster string) (kubernetes.Interface, error) {
	client, err := f.KubernetesClientSet()
	if err != nil {
		return nil, err
	}
	if ours, err := handover.IsJobd(client.Discovery()); err != nil {
		return nil, err
	} else if !ours {
		return nil, errors.New("the server is not jobd, and " + inCluster)
	}
	return client, nil
}

// setTime sets an annotation of a Job to the current time, or removes it.
func setTime(ctx context.Context, client kubernetes.Interface, j *batchv1.Job, annotation string, set bool, manager string) error {
	patch, err := timePatch(annotation, set)
	if err != nil {
		return err
	}
	_, err = client.BatchV1().Jobs(j.Namespace).Patch(ctx, j.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	return err
}

// timePatch returns the merge patch that sets an annotation to the current time, or removes it.
func timePatch(annotation string, set bool) ([]byte, error) {
	var value *string
	if set {
		now := time.Now().UTC().Format(time.RFC3339Nano)
		value = &now
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{annotation: value}}})
}
