package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/term"

	"github.com/jobd/jobd/api/images"
	"github.com/jobd/jobd/internal/printable"
)

// newImageCommand makes the commands that manage the daemon's images.
func newImageCommand(
	dial func(ctx context.Context) (net.Conn, error), streams genericiooptions.IOStreams,
) *cobra.Command {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}
	c := &imageClient{http: &http.Client{Transport: transport}, IOStreams: streams}
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Manage the images that jobd starts containers from",
		Example: `  # An image that docker has
  docker save perl:5.34.0 | jobctl image import

  # What is here
  jobctl image list`,
		Run: cmdutil.DefaultSubCommandRun(streams.ErrOut),
	}
	cmd.AddCommand(c.importCommand(), c.pullCommand(), c.listCommand(), c.removeCommand())
	return cmd
}

func (c *imageClient) importCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:                   "import [FILE|-] [--name REF]",
		DisableFlagsInUseLine: true,
		Short:                 "Import an archive of images",
		Long:                  "Import an archive of images: the output of docker save or podman save, or an OCI layout, compressed (gzip, zstd, bzip2, xz) or not. Without a file it is read from the standard input.",
		Example: `  # An image that docker has
  docker save perl:5.34.0 | jobctl image import

  # A file, under a name of its own
  jobctl image import perl.tar --name registry.example.com/perl:5.34.0`,
		Args: cobra.MaximumNArgs(1),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(c.importArchive(contextOf(cmd), append(args, "-")[0], name))
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "Name for the image in the archive, whatever the archive says")
	return cmd
}

func (c *imageClient) pullCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "pull REF",
		DisableFlagsInUseLine: true,
		Short:                 "Pull an image from its registry",
		Example: `  # Have the image here before a Job needs it
  jobctl image pull busybox:1.36`,
		Args: cobra.ExactArgs(1),
		Run:  func(cmd *cobra.Command, args []string) { cmdutil.CheckErr(c.pull(contextOf(cmd), args[0])) },
	}
}

func (c *imageClient) listCommand() *cobra.Command {
	var output string
	var noHeaders bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the images that are here",
		Example: `  # Names, sizes and ages
  jobctl image list

  # For programs
  jobctl image list -o json`,
		Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			cmdutil.CheckErr(c.list(contextOf(cmd), output, !noHeaders, time.Now()))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "", "Output format. One of: (json, wide)")
	cmd.Flags().BoolVar(&noHeaders, "no-headers", false, "When using the default or wide output format, don't print headers")
	return cmd
}

func (c *imageClient) removeCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "remove REF...",
		DisableFlagsInUseLine: true,
		Aliases:               []string{"rm"},
		Short:                 "Remove images",
		Example: `  # An image that no container needs any more
  jobctl image remove busybox:1.36`,
		Args: cobra.MinimumNArgs(1),
		Run:  func(cmd *cobra.Command, args []string) { cmdutil.CheckErr(c.remove(contextOf(cmd), args)) },
	}
}

// imageClient sends the requests of package api/images to the daemon.
type imageClient struct {
	http *http.Client
	genericiooptions.IOStreams
}

func (c *imageClient) importArchive(ctx context.Context, file, name string) error {
	archive := c.In
	if file == "-" {
		if (term.TTY{In: c.In}).IsTerminalIn() {
			return errors.New("nothing to import: name a file, or pipe an archive in, as docker save writes it")
		}
	} else {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		archive = f
	}
	var list images.List
	if err := c.do(ctx, http.MethodPost, url.Values{"op": {"import"}, "name": {name}}, archive, &list); err != nil {
		return err
	}
	for _, i := range list.Items {
		fmt.Fprintf(c.Out, "imported %s (%s)\n", i.Name, size(i.Size))
	}
	return nil
}

func (c *imageClient) pull(ctx context.Context, ref string) error {
	resp, err := c.ask(ctx, http.MethodPost, url.Values{"op": {"pull"}, "ref": {ref}}, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	terminal := (term.TTY{Out: c.ErrOut}).IsTerminalOut()
	for lines := json.NewDecoder(resp.Body); ; {
		var e images.Event
		if err := lines.Decode(&e); err != nil {
			return fmt.Errorf("the daemon broke off the pull of %s: %w", ref, err)
		}
		if terminal {
			fmt.Fprintf(c.ErrOut, "\r\x1b[K%s", printable.Line(e.Progress))
		}
		switch {
		case e.Error != nil:
			return errors.New(e.Error.Message)
		case e.Image != nil:
			fmt.Fprintf(c.Out, "pulled %s (%s, %s)\n", e.Image.Name, size(e.Image.Size), e.Image.Digest)
			return nil
		}
	}
}

func (c *imageClient) list(ctx context.Context, output string, headers bool, now time.Time) error {
	if output != "" && output != "wide" && output != "json" {
		return fmt.Errorf("unknown output format %q: one of json, wide", output)
	}
	var list images.List
	if err := c.do(ctx, http.MethodGet, nil, nil, &list); err != nil {
		return err
	}
	if output == "json" {
		return writeJSON(c.Out, list)
	}
	columns := func(i images.Image) []string {
		cells := []string{i.Name, short(i.ID), size(i.Size), age(i.Created, now)}
		if output == "wide" {
			cells = append(cells, i.Digest)
		}
		return cells
	}
	w := printers.GetNewTabWriter(c.Out)
	if headers {
		titles := []string{"NAME", "ID", "SIZE", "CREATED", "DIGEST"}
		fmt.Fprintln(w, strings.Join(titles[:len(columns(images.Image{}))], "\t"))
	}
	for _, i := range list.Items {
		fmt.Fprintln(w, strings.Join(columns(i), "\t"))
	}
	return w.Flush()
}

func (c *imageClient) remove(ctx context.Context, refs []string) error {
	var errs []error
	for _, ref := range refs {
		if err := c.do(ctx, http.MethodDelete, url.Values{"ref": {ref}}, nil, nil); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(c.Out, "removed %s\n", ref)
	}
	return errors.Join(errs...)
}

// do sends a request and decodes the answer into a value, unless that is nil.
func (c *imageClient) do(ctx context.Context, method string, query url.Values, body io.Reader, into any) error {
	resp, err := c.ask(ctx, method, query, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("the daemon's answer: %w", err)
	}
	return nil
}

// ask sends a request. If the answer is an error, it returns that.
func (c *imageClient) ask(
	ctx context.Context, method string, query url.Values, body io.Reader,
) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, host+images.Path+"?"+query.Encode(), body)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	var status metav1.Status
	if json.Unmarshal(raw, &status) == nil && status.Message != "" {
		return nil, errors.New(status.Message)
	}
	return nil, fmt.Errorf("the daemon answers %s: %s", resp.Status, strings.TrimSpace(string(raw)))
}

func contextOf(cmd *cobra.Command) context.Context {
	if ctx := cmd.Context(); ctx != nil {
		return ctx
	}
	return context.Background()
}

// short returns the beginning of a digest, by which people tell images apart.
func short(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(len(hex), 12)]
}

func age(created, now time.Time) string {
	if created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(created))
}

// size formats a size for a column of a table. go-units, with as few digits, prints 999.7 kB as 1e+03kB.
func size(bytes int64) string {
	value, units := float64(bytes), []string{"B", "kB", "MB", "GB", "TB"}
	for value >= 1000 && len(units) > 1 {
		value, units = value/1000, units[1:]
	}
	if units[0] == "B" || value >= 100 {
		return fmt.Sprintf("%.0f%s", value, units[0])
	}
	return fmt.Sprintf("%.1f%s", value, units[0])
}
