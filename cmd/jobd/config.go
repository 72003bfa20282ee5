package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func newConfigCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "config",
		Short: "Print a file for serve --config that explains every setting",
		Long: `Print a file for serve --config that explains every setting. All of them are commented out and have their default values:
remove the # in front of those that you change.`,
		Example: "  jobd config >/etc/jobd/jobd.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return writeConfig(cmd.OutOrStdout()) },
	}
}

// structured are the settings that have more in a file than a flag can say: an example of each, without its first line.
var structured = map[string]string{
	"runtime-handlers": "runtime-handlers:\n  runsc: {path: /usr/local/bin/runsc, args: [--platform=systrap]}\n",
	"notify-receivers": "notify-receivers:\n  ops: {webhook: {url: \"https://hooks.example.com/jobd\", secret-file: /etc/jobd/ops.token}}\n" +
		"  admin: {mail: {to: [root]}}\n  pager: {command: {args: [/usr/local/bin/page]}, namespaces: [default]}\n" +
		"  watch: {healthcheck: {url-file: /etc/jobd/healthcheck.url}}\n",
	"users": "users:\n- {user: alice, host-paths: [/data, \"/srv/models:ro\"], quota: {pods: 100, requests.memory: 64Gi}}\n- {group: lab}\n",
	"pod-security-enforce": "pod-security:\n  defaults: {enforce: privileged, audit: privileged, warn: privileged}\n  exemptions: " +
		"{usernames: [], runtimeClasses: [], namespaces: []}\n",
}

// writeConfig writes the settings of serve as a commented YAML file, in the order of their flags.
func writeConfig(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# Settings of jobd, which reads them when it starts (systemctl restart jobd, if it is a service of systemd); containers keep running.\n")
	b.WriteString("# Each is also a flag of \"jobd serve\", which wins over this file.\n")
	flags := newServeCommand().Flags()
	flags.SortFlags = false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "config" || f.Name == "help" {
			return
		}
		b.WriteString("\n")
		setting, ok := structured[f.Name]
		if !ok {
			value := f.DefValue
			if f.Value.Type() == "string" {
				value = fmt.Sprintf("%q", value)
			}
			setting = f.Name + ": " + value + "\n"
		}
		for line := range strings.Lines(f.Usage + "\n") {
			b.WriteString("# " + strings.TrimSpace(line) + "\n")
		}
		for line := range strings.Lines(setting) {
			b.WriteString("#" + line)
		}
	})
	_, err := io.WriteString(w, b.String())
	return err
}
