package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/jobd/jobd/daemon/config"
	"github.com/jobd/jobd/daemon/doctor"
)

func newDoctorCommand() *cobra.Command {
	settings, file, format := config.Default(), "", ""
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine this host: what jobd has here, what it lacks, and what that costs",
		Long: `Examine this host: what jobd has here, what it lacks, what that costs, and what helps. A container is run and a bridge is
made, in directories beside the root and the state directory, and all of that is removed again. Another jobd may run
meanwhile. The exit code is 1 if jobd cannot run containers here.`,
		Example: "  sudo jobd doctor\n  sudo jobd doctor -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if format != "" && format != "json" {
				return fmt.Errorf("--output: %q is not known: json", format)
			}
			if err := readConfig(file, &settings, cmd.Flags()); err != nil {
				return err
			}
			if err := settings.Complete(); err != nil {
				return err
			}
			found, err := doctor.Examine(cmd.Context(), settings)
			if err := errors.Join(err, writeFindings(cmd.OutOrStdout(), found, format)); err != nil {
				return err
			}
			for _, f := range found {
				if f.Level == doctor.Broken {
					return errors.New("containers cannot run here")
				}
			}
			return nil
		},
	}
	settings.AddDirs(cmd.Flags())
	addConfig(cmd.Flags(), &file, "the file that serve has")
	cmd.Flags().StringVarP(&format, "output", "o", "", "json, for programs")
	return cmd
}

func writeFindings(w io.Writer, found []doctor.Finding, format string) error {
	if format == "json" {
		out := json.NewEncoder(w)
		out.SetIndent("", "  ")
		return out.Encode(found)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range found {
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.Level, f.Subject, f.Text)
		if f.Help != "" {
			fmt.Fprintf(table, "\t\t-> %s\n", f.Help)
		}
	}
	return table.Flush()
}
