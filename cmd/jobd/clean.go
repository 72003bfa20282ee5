package main

import (
	"github.com/spf13/cobra"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/maintenance"
)

func newCleanCommand() *cobra.Command {
	settings, purge, file := config.Default(), false, ""
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "End every container of a root and remove what it left on the host",
		Long: `End every container of a root and remove what it left on the host: shards, mounts, cgroups, network namespaces, the
bridge and its nft table, the state directory. Stop the daemon of that root first. With --purge the root is removed as
well: database, images and logs, unless anything else is in it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				if err := readConfig(file, &settings, cmd.Flags()); err != nil {
					return err
				}
			}
			logger, err := newLogger(cmd.ErrOrStderr(), settings.LogLevel)
			if err != nil {
				return err
			}
			settings.Logger = logger
			return maintenance.Clean(cmd.Context(), settings, purge)
		},
	}
	addDirs(cmd.Flags(), &settings)
	cmd.Flags().StringVar(&file, "config", "", "the file that serve has, for its root and state")
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the root too: database, images, logs")
	return cmd
}
