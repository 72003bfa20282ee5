package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/maintenance"
)

func newCleanCommand() *cobra.Command {
	settings, purge, yes, file := config.Default(), false, false, ""
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "End every container of a root and remove what it left on the host",
		Long: `End every container of a root and remove what it left on the host: shards, mounts, cgroups, network namespaces, the
bridge and its nft table, the state directory. Stop the daemon of that root first. The volumes of PersistentVolumeClaims
are kept. With --purge the root is removed as well: database, images, logs and volumes, unless anything else is in it. If
there are volumes, --purge asks before it removes them; where nobody can be asked, it needs --yes.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := readConfig(file, &settings, cmd.Flags()); err != nil {
				return err
			}
			logger, err := newLogger(cmd.ErrOrStderr(), settings.LogLevel)
			if err != nil {
				return err
			}
			settings.Logger = logger
			// Containers of a root that is gone are ended all the same, but a mistyped path should be noticed.
			if found, err := maintenance.Found(settings); err != nil {
				return err
			} else if !found {
				fmt.Fprintf(cmd.ErrOrStderr(), "there is nothing of jobd's in %s and %s\n", settings.Root, settings.State)
			}
			if purge && !yes {
				if err := mayRemoveVolumes(cmd, settings); err != nil {
					return err
				}
			}
			if purge {
				return maintenance.Clean(cmd.Context(), settings, maintenance.Purge)
			}
			return maintenance.Clean(cmd.Context(), settings, nil)
		},
	}
	settings.AddDirs(cmd.Flags())
	addConfig(cmd.Flags(), &file, "the file that serve has, for its root and state")
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the root too: database, images, logs, volumes")
	cmd.Flags().BoolVar(&yes, "yes", false, "with --purge: do not ask before volumes are removed")
	return cmd
}

// mayRemoveVolumes asks whether the volumes of claims may be removed, if there are any. It fails unless the answer is yes.
func mayRemoveVolumes(cmd *cobra.Command, settings config.Config) error {
	names, err := maintenance.Volumes(settings)
	if err != nil || len(names) == 0 {
		return err
	}
	what := fmt.Sprintf("%d volumes of PersistentVolumeClaims, with all that is in them", len(names))
	if len(names) == 1 {
		what = "the volume of a PersistentVolumeClaim, with all that is in it"
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return fmt.Errorf("this removes %s (%s): add --yes if that is meant", what, settings.RootLayout().Volumes())
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "This removes %s (%s). Type yes to go on: ", what, settings.RootLayout().Volumes())
	answer, err := bufio.NewReader(in).ReadString('\n')
	if strings.TrimSpace(answer) != "yes" {
		return errors.Join(errors.New("nothing was removed"), ignoreEOF(err))
	}
	return nil
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}
