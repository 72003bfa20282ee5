package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/term"

	"github.com/jobd/jobd/api/images"
	"github.com/jobd/jobd/internal/ask"
	"github.com/jobd/jobd/internal/engine"
	"github.com/jobd/jobd/internal/printable"
)

// newImageCommand makes the commands that manage the daemon's images.
func newImageCommand(
	dial func(ctx context.Context) (net.Conn, error), streams genericiooptions.IOStreams,
) *cobra.Command {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}
	c := &imageClient{http: &http.Client{Transport: transport}, IOStreams: streams, environment: engine.Own}
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Manage the images that jobd starts containers from",
		Example: `  # An image that docker has
  jobctl image import docker://perl:5.34.0

  # What is here
  jobctl image list`,
		Run: cmdutil.DefaultSubCommandRun(streams.ErrOut),
	}
	cmd.AddCommand(c.importCommand(), c.pullCommand(), c.pushCommand(), c.tagCommand(), c.listCommand(), c.removeCommand(), c.pruneCommand())
	return cmd
}

func (c *imageClient) importCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:                   "import [docker://IMAGE|podman://IMAGE|FILE|-] [--name REF]",
		DisableFlagsInUseLine: true,
		Short:                 "Import an image that docker or podman has, or an archive of images",
		Long: `Import an image that your docker or podman has here, or an archive of images: the output of docker save or podman save, or an OCI layout, compressed (gzip, zstd, bzip2, xz) or not. Without a file it is read from the standard input.

Docker and podman are those that your own docker and podman commands use ($DOCKER_HOST, docker contexts, $CONTAINER_HOST, rootless ones). Where none listens on a unix socket, the command itself is run.`,
		Example: `  # An image that docker has
  jobctl image import docker://perl:5.34.0

  # An image that podman has built
  jobctl image import podman://trainer:1

  # A file, under a name of its own
  jobctl image import perl.tar --name registry.example.com/perl:5.34.0`,
		Args: cobra.MaximumNArgs(1),
		Run: func(cmd *cobra.Command, args []string) {
			source := append(args, "-")[0]
			if engine, image, ok := fromEngine(source); ok {
				cmdutil.CheckErr(c.importFrom(contextOf(cmd), engine, image, name))
				return
			}
			cmdutil.CheckErr(c.importArchive(contextOf(cmd), source, name))
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "Name for the image, whatever the archive, docker or podman says")
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
	environment func() engine.Environment // by which docker and podman are found
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
	c.sayImported(list)
	return nil
}

func (c *imageClient) pull(ctx context.Context, ref string) error {
	image, err := c.stream(ctx, "pull of "+ref, url.Values{"op": {"pull"}, "ref": {ref}}, nil)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.people(), "pulled %s (%s, %s)\n", image.Name, size(image.Size), image.Digest)
	return nil
}

// stream asks for a pull or a push, shows its progress on a terminal, and returns its outcome.
func (c *imageClient) stream(ctx context.Context, what string, query url.Values, with *images.Credentials) (*images.Image, error) {
	more, err := header(with)
	if err != nil {
		return nil, err
	}
	resp, err := c.ask(ctx, http.MethodPost, query, nil, more)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	terminal := (term.TTY{Out: c.ErrOut}).IsTerminalOut()
	for lines := json.NewDecoder(resp.Body); ; {
		var e images.Event
		if err := lines.Decode(&e); err != nil {
			return nil, fmt.Errorf("the daemon broke off the %s: %w", what, err)
		}
		if terminal {
			fmt.Fprintf(c.ErrOut, "\r\x1b[K%s", printable.Line(e.Progress))
		}
		switch {
		case e.Error != nil:
			return nil, errors.New(e.Error.Message)
		case e.Image != nil:
			return e.Image, nil
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
	// Who is no administrator is told names and sizes.
	whole := len(list.Items) == 0 || slices.ContainsFunc(list.Items, func(i images.Image) bool { return i.Digest != "" })
	columns := func(i images.Image) []string {
		if !whole {
			return []string{i.Name, size(i.Size)}
		}
		cells := []string{i.Name, short(i.ID), size(i.Size), age(i.Created, now)}
		if output == "wide" {
			cells = append(cells, i.Digest)
		}
		return cells
	}
	w := printers.GetNewTabWriter(c.people())
	if headers {
		titles := []string{"NAME", "ID", "SIZE", "CREATED", "DIGEST"}
		if !whole {
			titles = []string{"NAME", "SIZE"}
		}
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

// people is the output for people: what images are called is whatever the other side says.
func (c *imageClient) people() io.Writer { return printable.Writer(c.Out) }

// do sends a request and decodes the answer into a value, unless that is nil.
func (c *imageClient) do(ctx context.Context, method string, query url.Values, body io.Reader, into any) error {
	resp, err := c.ask(ctx, method, query, body, nil)
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

// ask sends a request, perhaps with headers. If the answer is an error, it returns that.
func (c *imageClient) ask(
	ctx context.Context, method string, query url.Values, body io.Reader, headers http.Header,
) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, host+images.Path+"?"+query.Encode(), body)
	if err != nil {
		return nil, err
	}
	maps.Copy(r.Header, headers)
	resp, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, ask.Refused(resp)
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
