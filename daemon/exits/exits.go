// Package exits says how a container has ended, and what people take that to mean: its exit code or signal, want of memory, a failed
// check, a program that could not be started.
//
// What is known of a pod comes in, the end of a container as a cause of api/why goes out. Everything is a pure function of that.
package exits

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/podspec"
	"github.com/jobd/jobd/api/why"
	"github.com/jobd/jobd/internal/quantity"
	"github.com/jobd/jobd/internal/signals"
)

// Pod is what the ends of its containers are explained by.
type Pod struct {
	*corev1.Pod
	Job    *batchv1.Job // nil: none
	Events []corev1.Event
	// Decides says that jobd decides about the pod.
	Decides bool
	// Peak returns the most memory, in bytes, that a container had which was killed for want of it; 0 if that is not known. It may be nil.
	Peak func(p *corev1.Pod, container string) int64
}

// Cause explains how a container has ended.
func (v *Pod) Cause(container string, end *corev1.ContainerStateTerminated) why.Cause {
	c := why.Cause{
		Type: "ExitCode", Since: why.At(end.FinishedAt.Time),
		Details: map[string]string{"container": container, "exitCode": fmt.Sprint(end.ExitCode)},
	}
	if end.Reason != "" {
		c.Details["reason"] = end.Reason
	}
	who := fmt.Sprintf("container %s", container)
	c.Brief = fmt.Sprintf("exit code %d of %s", end.ExitCode, who)
	switch {
	case end.Reason == "OOMKilled":
		c.Type = "OOMKilled"
		c.Brief = who + " ran out of memory"
		c.Message = v.outOfMemory(who, container, c.Details) + v.peakMemory(container, c.Details)
		if limit := c.Details["memoryLimit"]; limit != "" {
			c.Brief += " (limit " + limit + ")"
		}
	case end.Reason == "StartError" || end.Reason == "ContainerCannotRun":
		c.Type = "StartError"
		c.Brief = who + " could not be started: " + why.Clause(end.Message)
		c.Message = fmt.Sprintf("%s could not be started: %s", who, why.Sentence(end.Message))
		if NotAllowed(end.Message) {
			file := v.program(container, end.Message)
			c.Brief = fmt.Sprintf("%s could not be started: %s may not be executed", who, cmp.Or(file, "its program"))
			c.Message += v.mayNotExecute(container, file)
		} else if strings.Contains(end.Message, "open executable: ") || strings.Contains(end.Message, `exec: ""`) { // of crun, of runc
			c.Message += " The name of its program is empty: look at its command, and at the variables that it names, as $(NAME)."
		} else if NotThere(end.Message) {
			c.Message += " Its command does not exist in the image, or not in its PATH." + OneWord(end.Message)
			if spec := podspec.Find(&v.Spec, container); spec != nil && len(spec.Command) > 0 &&
				strings.HasPrefix(spec.Command[0], ".") && !strings.Contains(spec.Command[0], "/") {
				c.Message += " Older versions of crun do not look along the PATH for a name that begins with a dot: name its whole path."
			}
		}
		c.Message += v.tooLittleToStart(container, end.Message)
	case end.Reason == "ContainerStatusUnknown":
		c.Type = "EndUnknown"
		c.Brief = "the end of " + who + " is not known"
		c.Message = fmt.Sprintf("how %s ended is not known: the host, or the process that held it, went down. It counts as exit code %d.", who, end.ExitCode)
	case end.ExitCode == 0:
		c.Type, c.Brief = "Succeeded", ""
		c.Message = who + " has ended with exit code 0, which is success."
	default:
		c.Message = fmt.Sprintf("%s has ended with exit code %d: %s", who, end.ExitCode, v.meaning(end)) + v.meantForAShell(container)
		if what, said := v.condemned(container, end); what != "" {
			c.Type = "FailedCheck"
			c.Brief = what + " of " + who + " failed"
			c.Message = fmt.Sprintf("%s has ended with exit code %d, since it was stopped: its %s failed.", who, end.ExitCode, what)
			c.Details["check"] = what
			if said != "" {
				c.Brief += ": " + why.Clause(said)
				c.Message = strings.TrimSuffix(c.Message, ".") + ": " + why.Sentence(said)
			}
		}
	}
	if end.Message != "" && end.Reason != "StartError" && end.Reason != "ContainerStatusUnknown" {
		c.Details["terminationMessage"] = end.Message
		first, _, _ := strings.Cut(strings.TrimSpace(end.Message), "\n")
		c.Message += fmt.Sprintf(" Its termination message begins with %q.", first)
	}
	return c
}

// NotThere reports whether a container could not be started because its command does not exist.
func NotThere(message string) bool {
	return strings.Contains(message, "not found") || strings.Contains(message, "no such file")
}

var (
	// notAllowed is what crun and runc say of a program that is there, and which the kernel does not execute for this user.
	notAllowed = regexp.MustCompile(`(?i)open executable: permission denied|(?:exec: "[^"]*"|executable file .*): permission denied`)
	// programOf finds the name of a program in what they say of it.
	programOf = regexp.MustCompile("executable file `([^`]+)`|exec: \"([^\"]+)\"")
)

// NotAllowed reports whether a container could not be started because its user may not execute the command.
func NotAllowed(message string) bool { return notAllowed.MatchString(message) }

// OneWord says, of a program that was not found, that its name has blanks, as if a shell were to read it; "" for other names.
func OneWord(message string) string {
	found := programOf.FindStringSubmatch(message)
	if found == nil {
		return ""
	}
	name := cmp.Or(found[1], found[2])
	words := strings.Fields(name)
	if len(words) < 2 {
		return ""
	}
	return fmt.Sprintf(" It is looked for as one word, with its blanks: a program and its arguments are words of their own, as in [%s], "+
		"and a shell takes a whole line, as in [sh, -c, '%s'].", strings.Join(words, ", "), name)
}

// program returns the program of a container that was not started; "" if neither the message nor the spec names it.
func (v *Pod) program(container, message string) string {
	if found := programOf.FindStringSubmatch(message); found != nil {
		return cmp.Or(found[1], found[2])
	}
	if spec := podspec.Find(&v.Spec, container); spec != nil && len(spec.Command)+len(spec.Args) > 0 { // crun does not name it
		return slices.Concat(spec.Command, spec.Args)[0]
	}
	return ""
}

// mayNotExecute says what lets a program be executed that is there.
func (v *Pod) mayNotExecute(container, file string) string {
	spec := podspec.Find(&v.Spec, container)
	if spec == nil || file == "" {
		return " The file that the image starts may not be executed by the user that the container runs as."
	}
	text := fmt.Sprintf(" %s is there, but the user that the container runs as may not execute it: it lacks the permission, or is a directory.", file)
	if volume := v.writtenFor(spec, file); volume != "" {
		return text + fmt.Sprintf(" Its volume %s makes files that can be read only, unless it has defaultMode: 0755.", volume)
	}
	return text + " Set the permission with chmod +x where the file comes from, or let what interprets it read it: [sh, " + file + "]."
}

// writtenFor returns the name of the volume of a ConfigMap or a Secret in which a file of a container lies; "" if it lies elsewhere.
func (v *Pod) writtenFor(c *corev1.Container, file string) string {
	volume, longest := "", 0
	for _, m := range c.VolumeMounts {
		if at := strings.TrimRight(m.MountPath, "/"); len(at) > longest && (file == at || strings.HasPrefix(file, at+"/")) {
			volume, longest = m.Name, len(at)
		}
	}
	for _, of := range v.Spec.Volumes {
		if of.Name == volume && (of.ConfigMap != nil || of.Secret != nil || of.Projected != nil || of.DownwardAPI != nil) {
			return volume
		}
	}
	return ""
}

// shells read operators; find and xargs have words of their own that look like some.
var (
	shells    = []string{"sh", "ash", "bash", "dash", "ksh", "zsh", "fish", "busybox", "find", "xargs", "test", "[", "expr"}
	operators = []string{"&&", "||", "|", "&", ";", ">", ">>", "<", "2>&1", "2>", "&>"}
)

// meantForAShell says that a command has words which only a shell reads, and no shell; "" for all others.
func (v *Pod) meantForAShell(container string) string {
	spec := podspec.Find(&v.Spec, container)
	if spec == nil {
		return ""
	}
	line := slices.Concat(spec.Command, spec.Args)
	i := slices.IndexFunc(line, func(word string) bool { return slices.Contains(operators, word) })
	if i < 1 || slices.ContainsFunc(line[:i], func(word string) bool { return slices.Contains(shells, path.Base(word)) }) {
		return ""
	}
	return fmt.Sprintf(" No shell reads its command, so %q is an argument like any other: if it is meant for a shell, write "+
		"command: [sh, -c, '%s'].", line[i], strings.Join(line, " "))
}

// executing finds the line that an OCI runtime leaves as the last one of a log, as crun and as runc write it, when the kernel has
// refused to execute a file that is there.
var executing = regexp.MustCompile(`^(?:\{"msg":"exec container process (?:\([^)]*\) )?` + "`([^`]+)`" +
	`|exec (\S+)): (?i:(exec format error)|(no such file or directory))(?:",.*)?$`)

// NotExecuted explains an exit code by such a line: it is no exit code of the program, which never ran.
func NotExecuted(c *why.Cause) {
	if c.Type != "ExitCode" || len(c.Log) == 0 {
		return
	}
	found := executing.FindStringSubmatch(strings.TrimSpace(c.Log[len(c.Log)-1]))
	if found == nil {
		return
	}
	file := cmp.Or(found[1], found[2])
	c.Type = "NotExecutable"
	who := fmt.Sprintf("container %s has ended with exit code %s, but its program never ran: ", c.Details["container"], c.Details["exitCode"])
	c.Details["file"] = file
	if found[3] != "" {
		c.Brief = file + " is for another processor, or no program"
		c.Message = who + fmt.Sprintf("the kernel cannot execute %s. It, and probably the whole image, is for another processor "+
			"than that of this machine (%s), or it is a script without a first line such as #!/bin/sh.",
			file, runtime.GOARCH)
		return
	}
	c.Brief = file + ": its interpreter is missing (CRLF in its first line?)"
	c.Message = who + fmt.Sprintf("%s is there, but what should interpret it is not. Of a script that is the program in its first "+
		"line (#!): if lines end with CRLF, as editors on Windows write them, its name ends with a carriage return; sed -i "+
		"'s/\\r$//' FILE removes those. Of a program it is its dynamic loader, as of one made for glibc in an image with musl.",
		file)
}

// checks are those for whose failure a container is stopped: a part of the event that it is, and how that about the failure begins.
var checks = []struct{ name, stopped, failed string }{
	{"liveness probe", "failed liveness probe", "Liveness probe failed: "},
	{"startup probe", "failed startup probe", "Startup probe failed: "},
	{"postStart hook", "FailedPostStartHook", "PostStartHook failed: "},
}

// ofContainer finds how the errors of a command in a container begin, with names that nobody knows.
var ofContainer = regexp.MustCompile(`^(?:(?:exec in|start) container \S+: )+`)

// condemned returns for which check that had failed a container was stopped, and how that failed, by the events about this
// attempt. Both are empty if that is not why it has ended.
func (v *Pod) condemned(container string, end *corev1.ContainerStateTerminated) (check, said string) {
	var about []*corev1.Event
	for i := range v.Events {
		e := &v.Events[i]
		if e.InvolvedObject.UID == v.UID && strings.HasSuffix(e.InvolvedObject.FieldPath, "{"+container+"}") &&
			!core.LastSeen(e).Before(end.StartedAt.Time) {
			about = append(about, e)
		}
	}
	for _, c := range checks {
		if !slices.ContainsFunc(about, func(e *corev1.Event) bool { return e.Reason == "Killing" && strings.Contains(e.Message, c.stopped) }) {
			continue
		}
		for _, e := range about {
			if words, found := strings.CutPrefix(e.Message, c.failed); found {
				said = ofContainer.ReplaceAllString(words, "")
			}
		}
		return c.name, said
	}
	return "", ""
}

// tooLittleToStart says how little memory a container may have that could not be started for want of it, as crun and runc say.
func (v *Pod) tooLittleToStart(container, message string) string {
	c := podspec.Find(&v.Spec, container)
	if c == nil || !strings.Contains(message, "memory limit") && !strings.Contains(message, "memory.limit") && !strings.Contains(message, "memory.max") {
		return ""
	}
	limit, ok := c.Resources.Limits[corev1.ResourceMemory]
	switch {
	case !ok:
		return ""
	case limit.Format == resource.DecimalSI && strings.HasSuffix(limit.String(), "m"):
		return fmt.Sprintf(
			" Its limit of memory is %s, which is %s bytes: m stands for thousandths, Mi or M for millions.", limit.String(),
			limit.AsDec().String(),
		)
	}
	return fmt.Sprintf(" Its limit of memory, resources.limits.memory, is %s.", limit.String())
}

// meaning returns what people take an exit code to mean.
func (v *Pod) meaning(end *corev1.ContainerStateTerminated) string {
	signal := syscall.Signal(end.Signal)
	if signal == 0 && end.ExitCode > 128 && end.ExitCode <= 128+64 {
		signal = syscall.Signal(end.ExitCode - 128)
	}
	name := signals.Name(signal)
	switch {
	case end.ExitCode == 126:
		return "a shell found the command, but could not run it: the file is not executable, or not for this machine."
	case end.ExitCode == 127:
		return "a shell, or the program itself, did not find a command. Look for its name in the command and in the PATH of the image."
	case signal == signals.KILL && v.stopped():
		return "SIGKILL, since it was still running at the end of its grace period, after SIGTERM."
	case signal == signals.KILL:
		return "SIGKILL, by somebody else than the kernel's out-of-memory killer (that would be the reason OOMKilled)."
	case signal == signals.TERM && v.stopped():
		return "SIGTERM, with which it was asked to end, and it did not handle that."
	case signal == signals.SEGV:
		return "SIGSEGV, the program accessed memory that it does not have: a bug in it or in a library, or an image for another processor."
	case signal == signals.ILL:
		return "SIGILL, the program contains an instruction that this processor does not have."
	case signal == signals.ABRT:
		return "SIGABRT, the program has ended itself, as failed assertions do."
	case signal == signals.PIPE:
		return "SIGPIPE, it wrote to a pipe that nobody reads any more."
	case signal == signals.SYS:
		return "SIGSYS, it made a system call that its seccomp profile does not allow."
	case name != "":
		return "signal " + name + " has ended it."
	}
	return "the program's own way to say that it has failed."
}

// stopped reports whether the pod was asked to end.
func (v *Pod) stopped() bool {
	return v.DeletionTimestamp != nil || slices.Contains([]string{"DeadlineExceeded", "Evicted", "Preempting", "Terminated"}, v.Status.Reason)
}

// peakMemory says how much memory a container had that ran out of it, unless a limit says so already.
func (v *Pod) peakMemory(container string, details map[string]string) string {
	if v.Peak == nil {
		return ""
	}
	peak := v.Peak(v.Pod, container)
	if peak <= 0 {
		return ""
	}
	_, limited := details["memoryLimit"]
	details["peakMemory"] = resource.NewQuantity(peak, resource.BinarySI).String()
	if limited {
		return ""
	}
	return fmt.Sprintf(" It had %.1fMi at most.", float64(peak)/(1<<20))
}

func (v *Pod) outOfMemory(who, container string, details map[string]string) string {
	limit, of := "", "its limit"
	if c := podspec.Find(&v.Spec, container); c != nil {
		if q, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
			limit = q.String()
		}
	}
	if r := v.Spec.Resources; limit == "" && r != nil {
		if q, ok := r.Limits[corev1.ResourceMemory]; ok {
			limit, of = q.String(), "the limit of its pod"
		}
	}
	if limit == "" {
		return who + " has no limit of memory, and the kernel killed it (SIGKILL) because the machine, or the share of it that " +
			"all pods have, ran out of memory. Set resources.requests.memory, so that fewer such pods run at a time."
	}
	details["memoryLimit"] = limit
	return fmt.Sprintf(
		"the kernel killed %s (SIGKILL, exit code 137) because it ran out of memory: it reached %s of %s. %s", who, of, limit,
		v.moreMemory(limit, details),
	)
}

// moreMemory says what becomes of the memory of the next pod after this one was killed at a limit.
func (v *Pod) moreMemory(limit string, details map[string]string) string {
	if v.Job == nil || !v.Decides {
		return "Raise resources.limits.memory, or let the program use less."
	}
	o := batch.JobOOMMemory(v.Job.Annotations)
	if o == nil {
		return "Raise resources.limits.memory, or let the program use less; with the annotations " +
			batch.OOMMemoryFactorAnnotation + " and " + batch.OOMMemoryMaxAnnotation + " of the Job the next pod has more."
	}
	details["memoryFactor"], details["memoryMax"] = o.Factor.FloatString(2), o.Max.String()
	if was, err := quantity.Parse(limit); err == nil && was.Cmp(o.Max) >= 0 {
		return fmt.Sprintf("That is the most that the Job's annotation %s allows, so the next pod has no more.", batch.OOMMemoryMaxAnnotation)
	}
	return fmt.Sprintf("The next pod has %s times as much, up to %s (annotations %s and %s of the Job).",
		v.Job.Annotations[batch.OOMMemoryFactorAnnotation], o.Max.String(), batch.OOMMemoryFactorAnnotation, batch.OOMMemoryMaxAnnotation)
}
