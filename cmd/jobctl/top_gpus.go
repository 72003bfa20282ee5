package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/jobd/jobd/api/gpus"
	"github.com/jobd/jobd/internal/printable"
)

func showGPUs(ctx context.Context, f cmdutil.Factory, streams genericiooptions.IOStreams) error {
	client, err := f.KubernetesClientSet()
	if err != nil {
		return err
	}
	answer := client.BatchV1().RESTClient().Get().AbsPath(gpus.Path).Do(ctx)
	if err := answer.Error(); apierrors.IsNotFound(err) {
		return errors.New("the server does not look at GPUs: it is not jobd, or an older one")
	} else if err != nil {
		return err
	}
	raw, err := answer.Raw()
	if err != nil {
		return err
	}
	list := &gpus.List{}
	if err := json.Unmarshal(raw, list); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	if list.Error != "" {
		fmt.Fprintln(streams.ErrOut, "There are no newer figures: "+printable.Line(list.Error))
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(streams.ErrOut, "No GPU of NVIDIA is offered to pods (jobd doctor says why).")
		return nil
	}
	return printGPUs(streams.Out, list)
}

// printGPUs prints a line for each GPU, and for each further one that has it.
func printGPUs(to io.Writer, list *gpus.List) error {
	out := printers.GetNewTabWriter(printable.Writer(to))
	fmt.Fprintln(out, strings.Join([]string{"GPU", "NAME", "BUSY", "MEMORY", "OF", "USED-BY", "WITH"}, "\t"))
	for i := range list.Items {
		g := &list.Items[i]
		label := strings.ReplaceAll(strings.TrimPrefix(g.Label(), "GPU "), " MIG ", "/")
		cells := []string{label, orNone(g.Name), "<unknown>", sizeOf(g.MemoryUsed), sizeOf(g.Memory)}
		if g.Utilization != nil {
			cells[2] = fmt.Sprintf("%d%%", *g.Utilization)
		}
		for _, by := range usersOf(g) {
			fmt.Fprintln(out, strings.Join(append(cells, by[0], by[1]), "\t"))
			cells = []string{label, "", "", "", ""}
		}
	}
	return out.Flush()
}

// usersOf returns who has a GPU, and how much of its memory.
func usersOf(g *gpus.GPU) (all [][2]string) {
	for _, p := range g.Pods {
		all = append(all, [2]string{"pod " + p.Namespace + "/" + p.Name, sizeOf(p.MemoryUsed)})
	}
	if g.Others > 0 {
		all = append(all, [2]string{fmt.Sprintf("%d other pods", g.Others), ""})
	}
	for _, p := range g.Processes {
		size := sizeOf(p.MemoryUsed)
		p.MemoryUsed = nil
		all = append(all, [2]string{p.String(), size})
	}
	if len(g.Processes) == 0 && g.InUse {
		all = append(all, [2]string{"a program that is not jobd's", ""})
	}
	if len(all) == 0 {
		all = [][2]string{{"<none>", ""}}
	}
	return all
}

func sizeOf(n *int64) string {
	if n == nil {
		return "<unknown>"
	}
	return strings.ReplaceAll(gpus.Bytes(*n), " ", "")
}
