package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/jobd/jobd/api/shares"
	"github.com/jobd/jobd/internal/printable"
)

// extendTop adds to kubectl top a flag that shows what everybody has used instead of what is used now, and one for what GPUs do.
func extendTop(root *cobra.Command, f cmdutil.Factory, streams genericiooptions.IOStreams) {
	top, _, err := root.Find([]string{"top"})
	if err != nil || top == root {
		return
	}
	var show, ofGPUs bool
	top.Flags().BoolVar(&show, "shares", false,
		"What each namespace or user has used of the machine, by which the queue is ordered (jobd serve --queue-order fair)")
	top.Flags().BoolVar(&ofGPUs, "gpus", false, "What each GPU of NVIDIA does, and which pods and other programs use it")
	top.Long = "Show what CPU and memory nodes and pods use. jobd measures that when it is asked; a cluster needs the Metrics Server."
	for _, sub := range top.Commands() {
		sub.Long = sub.Short + "."
	}
	top.Example += `
  # What the GPUs do
  jobctl top --gpus

  # Who comes first in a queue that is ordered by what everybody has used
  jobctl top --shares`
	help := top.Run
	top.Run = func(cmd *cobra.Command, args []string) {
		switch {
		case ofGPUs:
			cmdutil.CheckErr(showGPUs(contextOf(cmd), f, streams))
		case show:
			cmdutil.CheckErr(showShares(contextOf(cmd), f, streams))
		default:
			help(cmd, args)
		}
	}
}

func showShares(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams) error {
	client, err := f.KubernetesClientSet()
	if err != nil {
		return err
	}
	answer := client.BatchV1().RESTClient().Get().AbsPath(shares.Path).Do(ctx)
	if err := answer.Error(); apierrors.IsNotFound(err) {
		return errors.New("the server does not count what everybody uses: it is not jobd, or an older one")
	} else if err != nil {
		return err
	}
	raw, err := answer.Raw()
	if err != nil {
		return err
	}
	list := &shares.List{}
	if err := json.Unmarshal(raw, list); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	out := printers.GetNewTabWriter(streams.Out)
	fmt.Fprintln(out, strings.Join([]string{"WHO", "USED", "SHARE", "USED/SHARE", "RUNNING", "WAITING"}, "\t"))
	for _, s := range list.Items {
		fmt.Fprintf(out, "%s\t%s\t%g\t%s\t%.0f%%\t%d\n", printable.Line(s.Account), shares.MachineTime(s.Used), s.Share, shares.MachineTime(s.Used/s.Share),
			100*s.Running, s.Waiting)
	}
	return out.Flush()
}
