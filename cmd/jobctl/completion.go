package main

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"

	"github.com/jobd/jobd/api/absent"
	"github.com/jobd/jobd/api/images"
	"github.com/jobd/jobd/cmd/internal/progress"
)

// flagValues are the values that flags may have, by command and flag; of all commands with the flag if none is named.
var flagValues = map[string][]string{
	"--progress":                 {progress.Auto, "plain", "tty", "quiet", "json"},
	"--on-interrupt":             {"ask", "detach", "delete"},
	"--on-start-error":           {"wait", "fail"},
	"--pull":                     {"always", "missing", "never"},
	"--stream":                   {"stdout", "stderr"},
	"jobctl submit --output":     {"yaml", "json", "name"},
	"jobctl why --output":        {"json", "yaml"},
	"jobctl history --output":    {"json"},
	"jobctl results --output":    {"csv", "json"},
	"jobctl simulate --output":   {"json"},
	"jobctl image list --output": {"json", "wide"},
	"jobctl notify --output":     {"json"},
	"jobctl kubeconfig --role":   {"read", "submit", "admin"},
}

// completeHere adds what is completed on jobd's socket: the names of images, and no kinds that jobd does not have.
func completeHere(root *cobra.Command, f cmdutil.Factory, dial dialFunc) {
	imagesHere := func(_ *cobra.Command, args []string, typed string) (names []string, _ cobra.ShellCompDirective) {
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
		defer transport.CloseIdleConnections()
		var list images.List
		client := &imageClient{http: &http.Client{Transport: transport, Timeout: 5 * time.Second}}
		if err := client.do(context.Background(), http.MethodGet, nil, nil, &list); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		for _, i := range list.Items {
			for _, name := range []string{shortName(i.Name), i.Name} {
				if strings.HasPrefix(name, typed) && !slices.Contains(args, name) {
					names = append(names, name)
					break
				}
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	var each func(*cobra.Command)
	each = func(c *cobra.Command) {
		if c.Flags().Lookup("image") != nil {
			if _, exists := c.GetFlagCompletionFunc("image"); !exists {
				_ = c.RegisterFlagCompletionFunc("image", imagesHere) // it only fails for what was just checked
			}
		}
		switch c.CommandPath() {
		case "jobctl image remove", "jobctl image pull", "jobctl image push", "jobctl image tag":
			c.ValidArgsFunction = imagesHere
		case "jobctl logs", "jobctl exec", "jobctl attach", "jobctl port-forward":
			c.ValidArgsFunction = onlyKindsHere(c.ValidArgsFunction, f, c.Name() == "logs")
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(root)
}

// shortName is how people write the name of an image of Docker Hub.
func shortName(image string) string {
	return strings.TrimPrefix(strings.TrimPrefix(image, "docker.io/"), "library/")
}

// followedKinds are the words for what has a log beyond that of a pod, and can be followed.
var followedKinds = map[string]string{
	"job": "jobs", "jobs": "jobs", "cronjob": "cronjobs", "cronjobs": "cronjobs", "cj": "cronjobs", "jobset": "jobsets", "jobsets": "jobsets",
}

// namesTyped completes KIND/NAME; false if that is not what is being typed.
func namesTyped(f cmdutil.Factory, typed string) (all []string, ok bool) {
	kind, name, slash := strings.Cut(typed, "/")
	resource := followedKinds[kind]
	if !slash || resource == "" {
		return nil, false
	}
	for _, name := range completion.CompGetResource(f, resource, name) {
		all = append(all, kind+"/"+name)
	}
	return all, true
}

// completeFollowed completes the name of a Job, and KIND/NAME, also for kinds beside Jobs, such as "cronjobs/".
func completeFollowed(f cmdutil.Factory, kinds ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		if names, ok := namesTyped(f, typed); ok {
			return names, cobra.ShellCompDirectiveNoFileComp
		}
		all := completion.CompGetResource(f, "jobs", typed)
		directive := cobra.ShellCompDirectiveNoFileComp
		for _, kind := range kinds {
			if strings.HasPrefix(kind, typed) {
				all, directive = append(all, kind), directive|cobra.ShellCompDirectiveNoSpace
			}
		}
		return all, directive
	}
}

// onlyKindsHere leaves out kinds with pods that jobd does not have, and for logs adds CronJobs and JobSets.
func onlyKindsHere(others cobra.CompletionFunc, f cmdutil.Factory, logs bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if logs && len(args) == 0 {
			if names, ok := namesTyped(f, typed); ok {
				return names, cobra.ShellCompDirectiveNoFileComp
			}
		}
		all, directive := others(c, args, typed)
		kept := slices.DeleteFunc(all, func(name string) bool {
			kind, isKind := strings.CutSuffix(name, "/")
			return isKind && slices.ContainsFunc(absent.Kinds, func(k absent.Kind) bool { return k.Resource() == kind })
		})
		if len(args) == 0 && logs {
			for _, kind := range []string{"cronjobs/", "jobsets/"} {
				if strings.HasPrefix(kind, typed) {
					kept = append(kept, kind)
				}
			}
		}
		return kept, directive
	}
}

// completeValues adds to the commands what a shell offers for flags, and for arguments, that kubectl does not complete.
func completeValues(root *cobra.Command, f cmdutil.Factory) {
	register := func(c *cobra.Command, flag string, fn cobra.CompletionFunc) {
		if c.Flags().Lookup(flag) == nil {
			return
		}
		if _, exists := c.GetFlagCompletionFunc(flag); !exists {
			_ = c.RegisterFlagCompletionFunc(flag, fn) // it only fails for what was just checked
		}
	}
	var each func(*cobra.Command)
	each = func(c *cobra.Command) {
		for key, values := range flagValues {
			of, flag, _ := strings.Cut(key, "--")
			if of = strings.TrimSpace(of); of == "" || of == c.CommandPath() {
				register(c, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	if c, _, err := root.Find([]string{"create", "job"}); err == nil {
		register(c, "from", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
			if names, ok := namesTyped(f, typed); ok {
				return names, cobra.ShellCompDirectiveNoFileComp
			}
			return []string{"cronjob/"}, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		})
	}
	for _, c := range root.Commands() {
		switch c.Name() {
		case "submit":
			register(c, "after", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				return completion.CompGetResource(f, "jobs", typed), cobra.ShellCompDirectiveNoFileComp
			})
		case "simulate":
			register(c, "from", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				var jobs []string
				for _, name := range completion.CompGetResource(f, "jobs", strings.TrimPrefix(typed, "jobs/")) {
					jobs = append(jobs, "jobs/"+name)
				}
				return jobs, cobra.ShellCompDirectiveNoFileComp
			})
		case "kubeconfig":
			register(c, "namespace", func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
				return completion.CompGetResource(f, "namespaces", typed), cobra.ShellCompDirectiveNoFileComp
			})
		case "wait":
			register(
				c, "for",
				cobra.FixedCompletions(
					[]string{finished, "condition=", "jsonpath=", "create", "delete"},
					cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace,
				),
			)
			if c.ValidArgsFunction == nil {
				c.ValidArgsFunction = completion.ResourceTypeAndNameCompletionFunc(f)
			}
		case "history":
			if c.ValidArgsFunction == nil {
				c.ValidArgsFunction = completion.SpecifiedResourceTypeAndNameCompletionFunc(f, []string{"jobs", "cronjobs"})
			}
		}
		if slices.Contains(ownVerbs, c.Name()) || c.Name() == "logs" {
			each(c)
		}
	}
}
