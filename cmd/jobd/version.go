package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	kubeversion "k8s.io/component-base/version"
)

// build says how this program was built.
type build struct {
	Version string `json:"version"`
	// Kubernetes is the version whose API is served.
	Kubernetes string `json:"kubernetes"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	// Settings are those of the go command: tags, CGO_ENABLED, -trimpath and others.
	Settings map[string]string `json:"settings"`
}

func newVersionCommand() *cobra.Command {
	format := ""
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program, or with -o json how it was built",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch format {
			case "":
				fmt.Fprintln(cmd.OutOrStdout(), version)
				return nil
			case "json":
				out := json.NewEncoder(cmd.OutOrStdout())
				out.SetIndent("", "  ")
				return out.Encode(built())
			}
			return fmt.Errorf("--output: %q is not known: json", format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "", "json, for how it was built")
	return cmd
}

func built() build {
	b := build{
		Version: version, Kubernetes: kubeversion.Get().GitVersion, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Settings: map[string]string{},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			b.Settings[s.Key] = s.Value
		}
	}
	return b
}
