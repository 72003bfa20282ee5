package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"

	"github.com/distribution/reference"
	"github.com/docker/cli/cli/config/configfile"
	"github.com/docker/cli/cli/config/types"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/jobd/jobd/api/images"
)

func (c *imageClient) pushCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "push IMAGE [REGISTRY/NAME:TAG]",
		DisableFlagsInUseLine: true,
		Short:                 "Push an image to a registry",
		Long: `Push an image that is here to a registry, under its own name or another one: to other machines, and to clusters, which cannot use what is only here.

The credentials are those of "docker login" or "podman login --compat-auth-file" of whoever runs jobctl (~/.docker/config.json or $DOCKER_CONFIG, with its credential helpers); the registry that refuses them, or for which there are none, is shown those of the daemon, as for pulls.`,
		Example: `  # An image for a cluster
  jobctl image push trainer:1 registry.example.com/team/trainer:1`,
		Args: cobra.RangeArgs(1, 2),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(c.push(contextOf(cmd), args[0], args[len(args)-1]))
		},
	}
}

func (c *imageClient) tagCommand() *cobra.Command {
	return &cobra.Command{
		Use:                   "tag IMAGE NAME",
		DisableFlagsInUseLine: true,
		Short:                 "Give an image another name",
		Example: `  # The image that Jobs with :stable use from now on
  jobctl image tag trainer:7 trainer:stable`,
		Args: cobra.ExactArgs(2),
		Run: func(cmd *cobra.Command, args []string) {
			cmdutil.CheckErr(c.tag(contextOf(cmd), args[0], args[1]))
			fmt.Fprintf(c.Out, "%s is %s\n", args[1], args[0])
		},
	}
}

func (c *imageClient) pruneCommand() *cobra.Command {
	var all, dryRun bool
	cmd := &cobra.Command{
		Use:                   "prune [--all] [--dry-run]",
		DisableFlagsInUseLine: true,
		Short:                 "Remove images that nothing needs",
		Long: `Remove the images that no pod uses, no Job that has not finished names, and no CronJob. Images that were imported or tagged by hand stay unless --all is given, since no registry could bring them back.

The sizes are what each has on the disk; what several share is freed with the last of them.`,
		Example: `  # What would go
  jobctl image prune --all --dry-run`,
		Args: cobra.NoArgs,
		Run:  func(cmd *cobra.Command, _ []string) { cmdutil.CheckErr(c.prune(contextOf(cmd), all, dryRun)) },
	}
	cmd.Flags().BoolVar(&all, "all", false, "Also remove images that were imported or tagged by hand")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "Only say which images would be removed")
	return cmd
}

func (c *imageClient) push(ctx context.Context, ref, to string) error {
	named, err := reference.ParseNormalizedNamed(to)
	if err != nil {
		return fmt.Errorf("%q is no name that a registry could have: %w", to, err)
	}
	with, err := ownCredentials(c.dockerConfig(), reference.Domain(named))
	if err != nil {
		return err
	}
	image, err := c.stream(ctx, "push of "+ref, url.Values{"op": {"push"}, "ref": {ref}, "to": {to}}, with)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.people(), "pushed %s (%s, %s)\n", image.Name, size(image.Size), image.Digest)
	return nil
}

func (c *imageClient) tag(ctx context.Context, ref, to string) error {
	return c.do(ctx, http.MethodPost, url.Values{"op": {"tag"}, "ref": {ref}, "to": {to}}, nil, nil)
}

func (c *imageClient) prune(ctx context.Context, all, dryRun bool) error {
	query := url.Values{"op": {"prune"}}
	if all {
		query.Set("all", "true")
	}
	if dryRun {
		query.Set("dryRun", "true")
	}
	var pruned images.Pruned
	if err := c.do(ctx, http.MethodPost, query, nil, &pruned); err != nil {
		return err
	}
	did, freed := "removed", "freed"
	if dryRun {
		did, freed = "would remove", "would free"
	}
	w := printers.GetNewTabWriter(c.people())
	for _, i := range pruned.Items {
		fmt.Fprintf(w, "%s\t%s\t%s\n", did, i.Name, size(i.Size))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(c.Out, "%s %s\n", freed, size(pruned.Freed))
	if pruned.Kept > 0 {
		fmt.Fprintf(c.Out, "kept %d that nothing needs, but no registry could bring back (--all removes them too)\n", pruned.Kept)
	}
	return nil
}

// dockerConfig is the file in which docker login keeps credentials.
func (c *imageClient) dockerConfig() string {
	in := c.environment()
	dir := in.Getenv("DOCKER_CONFIG")
	if dir == "" {
		dir = filepath.Join(in.Home, ".docker")
	}
	return filepath.Join(dir, "config.json")
}

// ownCredentials returns the credentials for a registry in a Docker config, or from a helper that it names; nil if there are none.
func ownCredentials(path, registry string) (*images.Credentials, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	config := configfile.New(path)
	if err := config.LoadFromReader(f); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if registry == "docker.io" {
		registry = "https://index.docker.io/v1/"
	}
	auth, err := config.GetAuthConfig(registry)
	if err != nil {
		return nil, fmt.Errorf("credentials for %s in %s: %w", registry, path, err)
	}
	if auth == (types.AuthConfig{}) || auth.Username == "" && auth.IdentityToken == "" {
		return nil, nil
	}
	return &images.Credentials{Username: auth.Username, Password: auth.Password, IdentityToken: auth.IdentityToken}, nil
}

// header returns credentials as a request has them.
func header(with *images.Credentials) (http.Header, error) {
	if with == nil {
		return nil, nil
	}
	raw, err := json.Marshal(with)
	if err != nil {
		return nil, err
	}
	return http.Header{images.AuthHeader: {base64.URLEncoding.EncodeToString(raw)}}, nil
}
