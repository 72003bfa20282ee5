package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/templates"
)

// groups are the commands as the help lists them: those for Jobs first. What is in none of them comes last.
var groups = []struct{ title, commands string }{
	{"Jobs:", "submit follow logs why watch wait retry suspend resume pause continue move prioritize history results report simulate dashboard top"},
	{"Objects, Jobs among them:", "apply create get describe edit delete explain"},
	{"Pods:", "run exec attach cp debug port-forward events"},
	{"Images, disk, notices and access:", "image df notify kubeconfig fleet auth"},
	{"The node:", "cordon uncordon drain taint cluster-info"},
	{"Objects, further:", "diff replace patch label annotate set kustomize proxy"},
	{"Settings:", "context completion config"},
}

// clusterVerbs are kubectl's commands for what jobd does not have, and what that is.
var clusterVerbs = map[string]string{
	"scale":             "Deployments and the like; the number of pods of a Job is its spec.parallelism: jobctl edit jobs/NAME",
	"autoscale":         "HorizontalPodAutoscalers; the number of pods of a Job is its spec.parallelism",
	"rollout":           "Deployments and the like; a changed Job is created anew, and jobctl retry runs again what failed",
	"expose":            "Deployments and the like; write a Service, or use jobctl port-forward",
	"certificate":       "CertificateSigningRequests; jobctl kubeconfig makes certificates for people",
	"create deployment": "Deployments; make it a Job: jobctl create job, or jobctl submit",
	"create ingress":    "Ingresses; use a hostPort, or jobctl port-forward",
}

// shorts say in the list of commands what kubectl says of a cluster or of single pods.
var shorts = map[string]string{
	"logs":         "Print what the pods of a Job, or a container, have printed",
	"wait":         "Wait for the end of Jobs, or for another condition",
	"run":          "Run an image in a pod",
	"cluster-info": "Show where jobd serves its API",
}

// socketVerbs are the commands whose requests jobd answers on its socket alone: a cluster does not know them, and over the
// network jobd does not answer them.
var socketVerbs = []string{"image", "df", "notify", "kubeconfig"}

// arrange lets the help lead with Jobs. On jobd's socket it also replaces the commands for what jobd does not have by
// refusals; against a cluster they work as in kubectl, and those that need the socket are refused.
func arrange(root *cobra.Command, cluster bool) {
	if cluster {
		for _, c := range root.Commands() {
			if slices.Contains(socketVerbs, c.Name()) {
				c.Hidden = true
				refuseElsewhere(c)
			}
		}
	} else {
		for _, c := range root.Commands() {
			if short, ok := shorts[c.Name()]; ok {
				c.Short = short
			}
		}
		for path, what := range clusterVerbs {
			if c, _, err := root.Find(strings.Fields(path)); err == nil && c.Name() == path[strings.LastIndex(path, " ")+1:] {
				if !servesPods(c) {
					refuse(c, what)
				}
				c.Hidden = true
			}
		}
	}
	var listed templates.CommandGroups
	for _, g := range groups {
		group := templates.CommandGroup{Message: g.title}
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title}) // of the manual
		for name := range strings.FieldsSeq(g.commands) {
			if i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name }); i >= 0 {
				root.Commands()[i].GroupID = g.title
				group.Commands = append(group.Commands, root.Commands()[i])
			}
		}
		listed = append(listed, group)
	}
	templates.ActsAsRootCommand(root, []string{"options", "alpha"}, listed...)
}

// servesPods reports whether a command for what jobd does not have can also be used for pods and Services. It is only
// left out of the help then, and says so for everything else.
func servesPods(c *cobra.Command) bool {
	if c.Name() != "expose" {
		return false
	}
	kubectls := c.Run
	c.Run = func(cmd *cobra.Command, args []string) {
		if len(args) > 0 {
			kind, _, _ := strings.Cut(args[0], "/")
			if !slices.Contains([]string{"po", "pod", "pods", "svc", "service", "services"}, strings.ToLower(kind)) {
				cmdutil.CheckErr(fmt.Errorf("jobd does not have %s", clusterVerbs["expose"]))
			}
		}
		kubectls(cmd, args)
	}
	return true
}

// refuseElsewhere makes a command that needs jobd's socket, and all below it, say so instead of using the socket although
// another server was named.
func refuseElsewhere(c *cobra.Command) {
	c.PreRunE = func(cmd *cobra.Command, _ []string) error {
		return fmt.Errorf("%s works on jobd's socket only: run it on the machine of the jobd that is meant, without "+
			"--kubeconfig, --context and --server", cmd.CommandPath())
	}
	for _, sub := range c.Commands() {
		refuseElsewhere(sub)
	}
}

// refuse makes a command, and all below it, say that there is nothing that it could be used for.
func refuse(c *cobra.Command, what string) {
	c.RemoveCommand(c.Commands()...)
	c.DisableFlagParsing = true
	c.ValidArgsFunction = cobra.NoFileCompletions
	c.PreRun, c.PreRunE, c.RunE, c.Args = nil, nil, nil, cobra.ArbitraryArgs
	c.Long, c.Example = "jobd does not have "+what+".", ""
	c.Short = "Not for jobd"
	c.Run = func(cmd *cobra.Command, _ []string) {
		cmdutil.CheckErr(fmt.Errorf("%s: jobd does not have %s", cmd.CommandPath(), what))
	}
}
