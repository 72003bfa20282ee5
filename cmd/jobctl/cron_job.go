package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/util/podcmd"
	"k8s.io/kubectl/pkg/scheme"
	"k8s.io/kubectl/pkg/util"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/cmd/internal/about"
)

// runsOf returns the Jobs that a CronJob has started, and those that were made from it by hand, the latest first.
func runsOf(ctx context.Context, client kubernetes.Interface, cj *batchv1.CronJob) ([]*batchv1.Job, error) {
	list, err := client.BatchV1().Jobs(cj.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var runs []*batchv1.Job
	for i := range list.Items {
		if batch.IsRunOf(&list.Items[i], cj) {
			runs = append(runs, &list.Items[i])
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf(
			"cronjobs/%s has no Jobs: it has not started any yet, or they are gone (spec.successfulJobsHistoryLimit and failedJobsHistoryLimit)",
			cj.Name,
		)
	}
	slices.SortFunc(runs, func(a, b *batchv1.Job) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(b.Name, a.Name))
	})
	return runs, nil
}

// runLogs are the logs of several Jobs, one after another, each behind a line with its name if there are several.
type runLogs []runLog

type runLog struct {
	name string
	log  rest.ResponseWrapper
}

var _ rest.ResponseWrapper = runLogs{}

func (r runLogs) DoRaw(ctx context.Context) ([]byte, error) {
	in, err := r.Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	return io.ReadAll(in)
}

// Stream opens each log when the one before has ended.
func (r runLogs) Stream(ctx context.Context) (io.ReadCloser, error) {
	if len(r) == 1 {
		return r[0].log.Stream(ctx)
	}
	in, out := io.Pipe()
	go func() {
		for i, run := range r {
			if i > 0 {
				fmt.Fprintln(out)
			}
			fmt.Fprintf(out, "==> %s <==\n", run.name)
			log, err := run.log.Stream(ctx)
			if err == nil {
				_, err = io.Copy(out, log)
				err = errors.Join(err, log.Close())
			}
			if err != nil {
				out.CloseWithError(fmt.Errorf("%s: %w", run.name, err))
				return
			}
		}
		out.Close()
	}()
	return in, nil
}

// findRuns is runsOf with a client of its own.
func findRuns(getter genericclioptions.RESTClientGetter, cj *batchv1.CronJob) ([]*batchv1.Job, error) {
	config, err := getter.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return runsOf(context.Background(), client, cj)
}

// cronJobLogs returns the requests for the logs of the last runs of a CronJob, the latest at the end. ofJob returns those
// of one Job.
func cronJobLogs(
	getter genericclioptions.RESTClientGetter, cj *batchv1.CronJob, n int,
	ofJob func(*batchv1.Job) (map[corev1.ObjectReference]rest.ResponseWrapper, error),
) (map[corev1.ObjectReference]rest.ResponseWrapper, error) {
	if n < 1 {
		return nil, fmt.Errorf("--runs must be 1 or more, and is %d", n)
	}
	runs, err := findRuns(getter, cj)
	if err != nil {
		return nil, err
	}
	runs = runs[:min(n, len(runs))]
	if len(runs) == 1 {
		return ofJob(runs[0])
	}
	var all runLogs
	for _, j := range slices.Backward(runs) {
		logs, err := ofJob(j)
		if err != nil {
			return nil, err
		}
		order := slices.SortedFunc(maps.Keys(logs), func(a, b corev1.ObjectReference) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.FieldPath, b.FieldPath))
		})
		for _, of := range order {
			name := "jobs/" + j.Name
			if of.Kind != "Job" {
				name += " " + strings.ToLower(of.Kind) + "s/" + of.Name
			}
			all = append(all, runLog{name, logs[of]})
		}
	}
	about := corev1.ObjectReference{
		APIVersion: "batch/v1", Kind: "CronJob", Namespace: cj.Namespace, Name: cj.Name, UID: cj.UID,
	}
	return map[corev1.ObjectReference]rest.ResponseWrapper{about: all}, nil
}

// extendCreateJob lets "create job NAME --from=cronjob/NAME -- ARGS" give other arguments to the container. Everything else
// about the command is kubectl's.
func extendCreateJob(root *cobra.Command, f cmdutil.Factory, streams genericiooptions.IOStreams) {
	create, _, err := root.Find([]string{"create", "job"})
	if err != nil || create.Name() != "job" {
		return
	}
	asCommand := false
	create.Flags().BoolVar(&asCommand, "command", false, "With --from: what follows -- replaces the container's command, not only its args.")
	create.Use = "job NAME (--image=IMAGE [-- COMMAND [ARGS...]] | --from=cronjob/NAME [-- ARGS...])"
	create.Example += "\n\n  # Run a CronJob now, with other arguments\n  jobctl create job tonight --from=cronjob/backup -- " +
		"--full --verbose\n\n  # With another command\n  jobctl create job look --from=cronjob/backup --command -- sh -c 'ls -l /data'"
	kubectls := create.Run
	create.Run = func(cmd *cobra.Command, args []string) {
		from := cmdutil.GetFlagString(cmd, "from")
		switch {
		case asCommand && (from == "" || len(args) < 2):
			cmdutil.CheckErr(errors.New("--command needs --from=cronjob/NAME, and a command after --"))
		case from == "" || len(args) < 2 || cmdutil.GetFlagString(cmd, "image") != "":
			kubectls(cmd, args)
		default:
			cmdutil.CheckErr(createFromCronJob(contextOf(cmd), f, streams, cmd, from, args[0], args[1:], asCommand))
		}
	}
}

func createFromCronJob(
	ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams, cmd *cobra.Command, from, name string,
	args []string, asCommand bool,
) error {
	objects, err := about.Named(f, []string{"cronjobs"}, []string{from})
	if err != nil {
		return err
	}
	client, err := f.KubernetesClientSet()
	if err != nil {
		return err
	}
	cj, err := client.BatchV1().CronJobs(objects[0].Namespace).Get(ctx, objects[0].Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	j := jobFrom(cj, name)
	pod := &corev1.Pod{ObjectMeta: j.Spec.Template.ObjectMeta, Spec: j.Spec.Template.Spec}
	c, err := podcmd.FindOrDefaultContainerByName(pod, "", false, streams.ErrOut)
	if err != nil {
		return err
	}
	if c.Args = args; asCommand {
		c.Command, c.Args = args, nil
	}
	strategy, err := cmdutil.GetDryRunStrategy(cmd)
	if err != nil {
		return err
	}
	validation, err := cmdutil.GetValidationDirective(cmd)
	if err != nil {
		return err
	}
	if err := util.CreateOrUpdateAnnotation(cmdutil.GetFlagBool(cmd, cmdutil.ApplyAnnotationsFlag), j, scheme.DefaultJSONEncoder()); err != nil {
		return err
	}
	if strategy != cmdutil.DryRunClient {
		options := metav1.CreateOptions{FieldManager: cmdutil.GetFlagString(cmd, "field-manager"), FieldValidation: validation}
		if strategy == cmdutil.DryRunServer {
			options.DryRun = []string{metav1.DryRunAll}
		}
		if j, err = client.BatchV1().Jobs(j.Namespace).Create(ctx, j, options); err != nil {
			return fmt.Errorf("failed to create job: %w", err)
		}
	}
	flags := genericclioptions.NewPrintFlags("created").WithTypeSetter(scheme.Scheme)
	output, template := cmdutil.GetFlagString(cmd, "output"), cmdutil.GetFlagString(cmd, "template")
	flags.OutputFormat, flags.TemplatePrinterFlags.TemplateArgument = &output, &template
	flags.JSONYamlPrintFlags.ShowManagedFields = cmdutil.GetFlagBool(cmd, "show-managed-fields")
	cmdutil.PrintFlagsWithDryRunStrategy(flags, strategy)
	printer, err := flags.ToPrinter()
	if err != nil {
		return err
	}
	return printer.PrintObj(j, streams.Out)
}

// jobFrom makes a Job from a CronJob as kubectl does.
func jobFrom(cj *batchv1.CronJob, name string) *batchv1.Job {
	annotations := map[string]string{"cronjob.kubernetes.io/instantiate": "manual"}
	maps.Copy(annotations, cj.Spec.JobTemplate.Annotations)
	owner := metav1.NewControllerRef(cj, batchv1.SchemeGroupVersion.WithKind("CronJob"))
	owner.BlockOwnerDeletion = nil // which would take another permission
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: cj.Namespace, Annotations: annotations, Labels: cj.Spec.JobTemplate.Labels,
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: *cj.Spec.JobTemplate.Spec.DeepCopy(),
	}
}
