package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/maintenance"
	"github.com/jobd/jobd/internal/printable"
)

func newDBCommand() *cobra.Command {
	settings, file := config.Default(), ""
	db := &cobra.Command{
		Use: "db", Short: "Maintain the database, whether the daemon runs or not", Args: cobra.NoArgs, RunE: help,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return readConfig(file, &settings, cmd.Flags(), "root", "state", "socket")
		},
	}
	settings.AddDirs(db.PersistentFlags())
	db.PersistentFlags().StringVar(&settings.Socket, "socket", settings.Socket,
		"socket of a daemon that runs (STATE/jobd.sock)")
	addConfig(db.PersistentFlags(), &file, "the file that serve has, for its root, state and socket")
	db.AddCommand(
		&cobra.Command{
			Use:   "check",
			Short: "Verify that the database is sound",
			Args:  cobra.NoArgs,
			Long: `Verify that the database is sound: its pages, its records and its objects.

Objects that could not be created as they are now are named on the standard error. They may be from an older version, but
check a database that somebody else has given you before you start jobd with it: whoever writes that file is root.`,
			RunE: func(cmd *cobra.Command, _ []string) error {
				refused, err := maintenance.Check(cmd.Context(), settings)
				if err != nil {
					return err
				}
				for _, object := range refused {
					fmt.Fprintln(cmd.ErrOrStderr(), "would be refused now, but is worked with:", printable.Line(object))
				}
				fmt.Fprintln(cmd.OutOrStdout(), "sound")
				return nil
			},
		},
		&cobra.Command{
			Use:   "backup FILE",
			Short: "Write a copy of the database to a file that does not exist yet",
			Args:  cobra.ExactArgs(1),
			Long: `Write a copy of the database to a file that does not exist yet.

A running daemon keeps working meanwhile. To restore a copy, stop jobd and put it in the place of ROOT/jobd.db.`,
			RunE: func(cmd *cobra.Command, args []string) error {
				if err := backup(cmd.Context(), settings, args[0]); err != nil {
					return err
				}
				info, err := os.Stat(args[0])
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "wrote %s, %d bytes\n", args[0], info.Size())
				}
				return err
			},
		},
		&cobra.Command{
			Use:   "compact",
			Short: "Return the free space of the database to the file system",
			Args:  cobra.NoArgs,
			Long: `Return the free space of the database to the file system.

A running daemon keeps working meanwhile. The disk needs room for a second copy of what the database has in use.`,
			RunE: func(cmd *cobra.Command, _ []string) error {
				before, after, err := maintenance.Compact(cmd.Context(), settings)
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%d bytes, were %d\n", after, before)
				}
				return err
			},
		},
	)
	return db
}

// backup writes a complete copy that is on the disk, or nothing.
func backup(ctx context.Context, settings config.Config, path string) (err error) {
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, out.Close()); err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	if err := maintenance.Backup(ctx, settings, out); err != nil {
		return err
	}
	return out.Sync()
}
