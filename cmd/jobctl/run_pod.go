package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// extendRun lets kubectl's command for a pod say what to type to whoever takes it for that of docker, or wants a Job.
// With -i it waits in the queue for as long as that takes.
func extendRun(root *cobra.Command, own submitter) {
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		panic(err) // kubectl has always had it
	}
	run.PreRunE = func(c *cobra.Command, args []string) error {
		if c.Flags().Changed("filename") {
			return errors.New("a file is run by jobctl submit -f FILE, and created by jobctl apply -f FILE")
		}
		if c.Flags().Changed("image") || len(args) == 0 {
			return nil
		}
		command := ""
		if dash := c.ArgsLenAtDash(); len(args) > 1 {
			command = " -- " + strings.Join(args[max(1, dash):], " ")
		}
		return fmt.Errorf(
			"--image is missing: a Job is run by jobctl submit --image %s%s, and a pod by jobctl run NAME --image %[1]s%s",
			args[0], command, command,
		)
	}
	own.waitInQueue(run)
	before := run.FlagErrorFunc()
	run.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		if strings.Contains(err.Error(), `for "-v, --v" flag`) {
			return errors.New("-v says how much is logged: a directory of the host is mounted by jobctl submit --image IMAGE --volume HOST:PATH")
		}
		return before(c, err)
	})
}
