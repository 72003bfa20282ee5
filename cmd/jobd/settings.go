package main

import (
	"fmt"
	"os"
	"slices"

	"github.com/spf13/pflag"

	"github.com/jobd/jobd/daemon/config"
)

// machineConfig has the settings of the jobd of the machine. Packages put it there, and with it who of the machine may do what: a daemon
// that is started by hand must not let in more.
const machineConfig = "/etc/jobd/jobd.yaml"

// addConfig adds the flag --config of the commands that work on a root.
func addConfig(flags *pflag.FlagSet, file *string, usage string) {
	flags.StringVar(file, "config", "", usage+" ("+machineConfig+" if that exists and --root is not given)")
}

// configFile returns the file with the settings; empty for none. A root that is named is of another jobd than that of the machine.
func configFile(named string, ofRoot, exists bool) string {
	if named == "" && !ofRoot && exists {
		return machineConfig
	}
	return named
}

// readConfig applies the file of --config, or that of the machine, over the defaults.
func readConfig(named string, settings *config.Config, flags *pflag.FlagSet, only ...string) error {
	_, err := os.Stat(machineConfig)
	file := configFile(named, flags.Changed("root"), err == nil)
	if file == "" {
		return nil
	}
	return readFile(file, settings, flags, only...)
}

// readFile applies a file over the defaults, and the flags that were set over the file: all of them, or only those that are named.
func readFile(path string, settings *config.Config, flags *pflag.FlagSet, only ...string) error {
	given := map[string]string{}
	flags.Visit(func(f *pflag.Flag) {
		if len(only) == 0 || slices.Contains(only, f.Name) {
			given[f.Name] = f.Value.String()
		}
	})
	if err := settings.ReadFile(path); err != nil {
		return err
	}
	for name, value := range given {
		if err := flags.Set(name, value); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
	}
	return nil
}
