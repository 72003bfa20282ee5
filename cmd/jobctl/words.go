package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/jobd/jobd/api/absent"
	"github.com/jobd/jobd/cmd/internal/submit"
	"github.com/jobd/jobd/daemon/exits"
	"github.com/jobd/jobd/internal/printable"
)

// words puts into jobd's words what kubectl says when a command fails: kubectl speaks of clusters and of custom resources,
// which a user of jobd does not have. The messages arrive as text, so they are recognized as such; a test goes through
// kubectl's own code to see that they still are.
type words struct {
	cluster bool // the server is not on the socket
	errOut  io.Writer
	// skipUnknown lets a command succeed if the only failures were kinds that jobd does not have.
	skipUnknown bool
	refused     refusedRequest
	exit        func(int)
	verb        string // the command that the arguments name
	// elsewhere says where a Job is that was not found; nil: nobody knows.
	elsewhere func(job string) string
}

// fatal prints the message and ends the program, as kubectl does.
func (w *words) fatal(message string, code int) {
	message = printable.Text(w.translate(message)) // servers quote what others have written
	if w.skipUnknown {
		var rest []string
		for line := range strings.Lines(message) {
			if strings.Contains(line, doesNotHave) {
				fmt.Fprintf(w.errOut, "skipped: %s\n", strings.TrimPrefix(strings.TrimSpace(line), "error: "))
				continue
			}
			rest = append(rest, line)
		}
		if message = strings.Join(rest, ""); strings.TrimSpace(message) == "" {
			w.exit(0)
			return
		}
	}
	if message != "" {
		fmt.Fprintln(w.errOut, strings.TrimRight(message, "\n"))
	}
	w.exit(code)
}

var (
	// unknownKind is what the resource builder says of a kind that discovery does not list.
	unknownKind = regexp.MustCompile(`(?:error: )?resource mapping not found for name: "([^"]*)" namespace: "[^"]*" from "([^"]*)": ` +
		`no matches for kind "([^"]*)" in version "([^"]*)"\nensure CRDs are installed first`)
	// refusedKind is what the server says of a kind that it lists, but does not let anybody create.
	refusedKind = regexp.MustCompile(`Error from server \(MethodNotAllowed\): (?:error when \w+ "([^"]*)": )?` +
		`((?:\w+ "[^"]*": )?` + doesNotHave + `[^\n]*)`)
	// wholePatch is what the server says of a patch whose result is no object: all of it, which helps nobody.
	wholePatch = regexp.MustCompile(`(?s)(patch: )Invalid value: ".*": `)
	// ofDaemon is what cobra says of a command that the daemon has.
	ofDaemon = regexp.MustCompile(`unknown command "(clean|db|debug|doctor|serve)" for "jobctl"`)
	// noCommand is what it says of one that nobody has, with the names that look like it.
	noCommand = regexp.MustCompile(`^error: unknown command "([^"]+)" for "jobctl"\n`)
	// noJob and noPod are what the server says of those that do not exist.
	noJob = regexp.MustCompile(`\bjobs\.batch "([^"]+)" not found`)
	noPod = regexp.MustCompile(`^Error from server \(NotFound\): pods "([^"]+)" not found`)
	// inContainer is how errors of a command in a container begin, with names that nobody knows.
	inContainer = regexp.MustCompile(`(?:(?:exec in|start) container \S+\.\d+: )+`)
	// remains are the brackets and commas of a list of errors in one line.
	remains = regexp.MustCompile(`(?m)^(?:error: )?[\[\], ]*\n`)
)

// doesNotHave is part of every absent.Refusal.
const doesNotHave = "jobd runs Jobs and does not have the kind "

func (w *words) translate(message string) string {
	message = shortTemplate(message)
	message = refusedKind.ReplaceAllStringFunc(message, func(found string) string {
		part := refusedKind.FindStringSubmatch(found)
		if part[1] == "" {
			return "error: " + part[2]
		}
		return fmt.Sprintf("error: %s: %s", source(part[1]), part[2])
	})
	if m := noCommand.FindStringSubmatch(message + "\n"); m != nil && otherCommand(m[1]) != "" {
		message = strings.TrimSpace(m[0]) + ": " + otherCommand(m[1])
	}
	message = w.ofContainers(message)
	if m := noJob.FindStringSubmatch(message); m != nil && w.elsewhere != nil {
		if help := w.elsewhere(m[1]); help != "" {
			message = strings.TrimRight(message, "\n") + "\n" + help
		}
	}
	message = ofDaemon.ReplaceAllString(message, "${0}: it is one of jobd's own, on its machine: sudo jobd ${1}")
	if help := submit.Mistyped(message, w.refused.sent()); help != "" {
		message = strings.TrimRight(wholePatch.ReplaceAllString(message, "${1}"), "\n") + "\n" + help
	} else if help := submit.NamespaceMissing(message); help != "" && w.refused.creates() {
		message = strings.TrimRight(message, "\n") + "\n" + help
	}
	if strings.Contains(message, "yaml: control characters are not allowed") {
		message = strings.TrimRight(message, "\n") + "\nA string of the object has a character that kubectl cannot write as YAML here: " + w.otherYAML()
	}
	if sent, refused := w.refused.credentials(); refused && unauthorized(message) {
		message = strings.TrimRight(message, "\n") + "\n" + whyUnauthorized(sent, time.Now())
	}
	if help := whoMay(message, w.refused.isStranger(), w.refused.ownNamespace()); help != "" {
		message = strings.TrimRight(message, "\n") + "\n" + help
	}
	if strings.HasSuffix(strings.TrimSpace(message), "certificate signed by unknown authority") {
		message = strings.TrimRight(message, "\n") + "\nThe certificate of the server is its own. Of jobd it is in the file that \"jobctl kubeconfig\" " +
			"makes there (--kubeconfig FILE); --certificate-authority FILE takes it alone."
	}
	if w.cluster {
		if strings.Contains(message, "context was not found for specified context: ") {
			message += "\n\"jobctl config get-contexts\" lists those that there are; without --context jobctl speaks to jobd."
		}
		return message
	}
	untranslated := message
	message = unknownKind.ReplaceAllStringFunc(message, func(found string) string {
		part := unknownKind.FindStringSubmatch(found)
		gv, err := schema.ParseGroupVersion(part[4])
		if err != nil {
			return found
		}
		if kind := submit.KindMeant(part[3], gv); kind != "" {
			return fmt.Sprintf("\nerror: %s: %s %q: there is no kind %[2]s: write kind: %[4]s\n", source(part[2]), part[3], part[1], kind)
		}
		refusal, moved := absent.Moved(gv.WithKind(part[3]))
		if !moved {
			refusal = absent.Refusal(schema.GroupKind{Group: gv.Group, Kind: part[3]})
		}
		return fmt.Sprintf("\nerror: %s: %s %q: %s\n", source(part[2]), part[3], part[1], refusal)
	})
	if message != untranslated || strings.Contains(message, doesNotHave) {
		message = remains.ReplaceAllString(message+"\n", "")
	}
	switch {
	case strings.Contains(message, "the server could not find the requested resource"):
		message += "\nThis jobd may be older than jobctl, or newer: \"jobctl version\" shows both versions."
	case strings.HasPrefix(message, "The connection to the server jobd"):
		message = "error: jobd does not answer: it was stopped, or is being restarted"
	case strings.HasPrefix(message, "Unable to connect to the server: "):
		message = "error: " + strings.TrimPrefix(message, "Unable to connect to the server: ")
	}
	return message
}

// ofContainers makes errors of commands in containers speak of what was typed.
func (w *words) ofContainers(message string) string {
	if !slices.Contains([]string{"exec", "attach", "cp", "port-forward"}, w.verb) {
		return message
	}
	if m := noPod.FindStringSubmatch(message); m != nil && w.verb != "cp" {
		message = strings.TrimRight(message, "\n") + fmt.Sprintf("\nA pod of the Job %s is named jobs/%[1]s here.", m[1])
	}
	short := inContainer.ReplaceAllString(message, "")
	if short != message {
		short = strings.TrimRight(short, "\n")
		if help := exits.OneWord(short); help != "" {
			short += "." + help
		}
	}
	return short
}

// otherYAML says how to see an object of which kubectl's command cannot write YAML.
func (w *words) otherYAML() string {
	switch w.verb {
	case "diff":
		return "compare what \"jobctl get -f FILE -o yaml\" and \"jobctl apply -f FILE --dry-run=server -o yaml\" write."
	case "edit":
		return "jobctl edit takes -o json."
	}
	return "jobctl get takes -o yaml."
}

func source(from string) string {
	if from == "STDIN" {
		return "standard input"
	}
	return from
}

// addSkipUnknown adds --skip-unknown to the commands that create or delete what files hold.
func (w *words) addSkipUnknown(root *cobra.Command) {
	for _, name := range []string{"apply", "create", "delete"} {
		if c, _, err := root.Find([]string{name}); err == nil && c != root {
			c.Flags().BoolVar(&w.skipUnknown, "skip-unknown", false, "Exit with 0 if nothing failed but objects of kinds that jobd does not have")
		}
	}
}

func newWords(errOut io.Writer) *words {
	return &words{errOut: errOut, exit: os.Exit}
}
