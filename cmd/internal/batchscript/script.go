// Package batchscript reads scripts for batch systems: what their #SBATCH or #PBS lines ask for.
//
// The text of a script comes in; a Script goes out, or an error that names each line that cannot be followed and says what to do
// instead. Nothing is ignored quietly: what has no effect here either is refused, or is a note. Nothing here does I/O.
// cmd/internal/submit makes a Job of a Script.
package batchscript

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agext/levenshtein"
)

// System is a batch system whose lines a script has.
type System string

const (
	None  System = ""
	Slurm System = "#SBATCH"
	PBS   System = "#PBS"
)

// MaxText is how long a script may be: each pod that runs it has a copy.
const MaxText = 128 << 10

// Script is a script with what its lines ask for. What they do not ask for is zero.
type Script struct {
	Name   string // of its file, without the directory
	Text   string
	System System
	Notes  []string // what somebody who submits it should know

	JobName      string
	Comment      string
	CPUs         int64
	MiB          int64 // of memory, for all CPUs
	MiBPerCPU    int64
	GPUs         int64
	Time         time.Duration
	Array        *Array
	After        []Need
	Begin        time.Time // before which it does not start
	Dir          string
	Output       *File
	Error        *File
	Append       bool // to the files of Output and Error
	Env          []string
	Image        string
	Mounts       []string // HOST:PATH or HOST:PATH:ro
	ContainerDir string
}

// File is a file that the script's output goes to.
type File struct {
	Pattern string // with %j and the like of Slurm, which Slurm alone knows
	At      string // the line and the option that name it, for errors
}

// Need is a Job that has to end before.
type Need struct {
	Name string
	How  string // ok, any or failed
}

// Read reads a script at a time, in whose zone the times of the script are. The options whose names are in ignore are left out; they are
// named as in errors, without dashes.
func Read(name, text string, ignore []string, now time.Time) (*Script, error) {
	r := &reader{Script: Script{Name: name, Text: text}, now: now, ignore: ignore, used: map[string]bool{}}
	if err := r.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r.lines()
	for _, option := range ignore {
		if !r.used[option] {
			r.errs = append(r.errs, fmt.Errorf("%s: it has no line with the option %q, which is to be ignored", name, option))
		}
	}
	r.finish()
	if len(r.errs) > 0 {
		if len(r.leave) > 0 {
			r.errs = append(r.errs, fmt.Errorf("to leave options out, for one script here and on a cluster: --ignore-directive %s", strings.Join(r.leave, ",")))
		}
		return nil, errors.Join(r.errs...)
	}
	return &r.Script, nil
}

// reader is a Script in the making.
type reader struct {
	Script
	now    time.Time
	ignore []string
	used   map[string]bool // of ignore
	line   int             // from 1
	memory string          // the line that asks for an amount
	join   string          // what -j of PBS says
	leave  []string        // options that are refused whatever their value is
	errs   []error
}

// check refuses what no batch system would take, with the reasons that sbatch has.
func (r *reader) check() error {
	first, _, _ := strings.Cut(r.Text, "\n")
	switch {
	case len(r.Text) > MaxText:
		return fmt.Errorf("it has %d bytes, and a batch script may have %d: put it into the image, or mount it with --volume and name it behind --",
			len(r.Text), MaxText)
	case strings.ContainsRune(r.Text, 0) || !utf8.ValidString(r.Text):
		return errors.New("it is not a text in UTF-8, as a batch script is: to run a program, put it into the image or mount it, and name it behind --")
	case strings.HasPrefix(first, "\ufeff"):
		return errors.New(`it begins with a byte order mark, as editors on Windows write it, before which no #! is found: sed -i '1s/^\xEF\xBB\xBF//' removes that`)
	case strings.HasSuffix(first, "\r"):
		return fmt.Errorf(`its lines end as in DOS, and no interpreter is named %q: convert it, with dos2unix or sed -i 's/\r$//'`, strings.TrimPrefix(first, "#!"))
	case !strings.HasPrefix(first, "#!") || strings.TrimSpace(first[2:]) == "":
		return errors.New("its first line has to say what runs it, such as #!/bin/sh")
	case !strings.HasPrefix(strings.TrimSpace(first[2:]), "/"):
		return fmt.Errorf("its first line has to name an interpreter by its whole path, and says %q", first)
	}
	return nil
}

// lines reads the lines with options, which stand before the first command.
func (r *reader) lines() {
	lines := strings.Split(r.Text, "\n")
	for _, system := range []System{Slurm, PBS} {
		if slices.ContainsFunc(lines[:commands(lines)], func(line string) bool { return isOptions(line, system) }) {
			r.System = system
			break
		}
	}
	begin := commands(lines)
	for i, line := range lines {
		r.line = i + 1
		switch text := strings.TrimSpace(line); {
		case i < begin && r.System != None && isOptions(line, r.System):
			r.options(line[len(r.System):])
		case isOptions(text, Slurm) || isOptions(text, PBS):
			r.ignored(text, line, i >= begin)
		case i >= begin:
			r.command(text)
		}
	}
}

// maxNotes is how many notes a script may lead to.
const maxNotes = 20

// begin takes in when the script is to start.
func (r *reader) begin(text string, parse func(string, time.Time) (time.Time, error)) error {
	at, err := parse(text, r.now)
	if err != nil {
		return err
	}
	if !at.After(r.now) {
		r.note("%q is not in the future: it starts at once", text)
		at = time.Time{}
	}
	r.Begin = at
	return nil
}

func (r *reader) note(format string, args ...any) {
	if len(r.Notes) < maxNotes {
		r.Notes = append(r.Notes, fmt.Sprintf("%s:%d: ", r.Name, r.line)+fmt.Sprintf(format, args...))
	}
}

// ignored says why a line with options has no effect.
func (r *reader) ignored(text, line string, behind bool) {
	word, _, _ := strings.Cut(text, " ")
	switch {
	case behind:
		r.note("%s is ignored, as batch systems do it: it stands behind the first command", word)
	case text != line:
		r.note("%s is ignored, as batch systems do it: it does not stand at the beginning of its line", word)
	default:
		r.note("%s is ignored beside the lines of %s", word, r.System)
	}
}

// command says what a command of batch systems is replaced by, which images do not have.
func (r *reader) command(text string) {
	word, _, _ := strings.Cut(text, " ")
	switch word {
	case "srun", "mpirun", "mpiexec":
		r.note("%s: the image, or with --host the machine, has to have it; a Job has one task for each index, so a program can be run without it", word)
	case "module":
		r.note("module: an image has its software already: choose one by --image that has what is loaded here; with --host no profile of a shell is read, which might define it")
	case "sbatch", "scancel", "squeue", "sacct", "scontrol", "qsub", "qdel", "qstat":
		r.note("%s: there is no batch system to speak to in a container: see jobctl explain slurm", word)
	}
}

// commands returns the number of the first line that is neither empty nor a comment.
func commands(lines []string) int {
	for i, line := range lines {
		if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			return i
		}
	}
	return len(lines)
}

// isOptions reports whether a line has options of a system.
func isOptions(line string, system System) bool {
	rest, ok := strings.CutPrefix(line, string(system))
	return ok && (rest == "" || strings.ContainsAny(rest[:1], " \t\r-"))
}

// words splits a line as sbatch does: at spaces outside of quotes, up to a comment.
func words(line string) (all []string, err error) {
	var word strings.Builder
	inside, quote := false, rune(0)
	escaped := false
	for _, c := range strings.TrimSuffix(line, "\r") {
		switch {
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\' && quote != '\'':
			escaped, inside = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, inside = c, true
		case c == '#' && !inside:
			return all, nil
		case c == ' ' || c == '\t':
			if inside {
				all = append(all, word.String())
				word.Reset()
				inside = false
			}
		default:
			word.WriteRune(c)
			inside = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c has no end", quote)
	}
	if escaped {
		return nil, errors.New(`a \ stands at the end of the line`)
	}
	if inside {
		all = append(all, word.String())
	}
	return all, nil
}

// option is an option of a batch system.
type option struct {
	long, short string // without dashes; one of them may be empty
	value       valued
	// read takes the value in; an error says why it cannot be followed. nil: the option cannot be followed at all.
	read func(r *reader, value string) error
	// ours says what it is here; of an option that cannot be followed, what to do instead.
	ours string
}

type valued int

const (
	always valued = iota
	never
	maybe // only as --name=VALUE
)

// name is how the option is written.
func (o *option) name() string {
	if o.long != "" {
		return "--" + o.long
	}
	return "-" + o.short
}

// refuse notes why an option cannot be followed.
func (r *reader) refuse(option, why string) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s %s: %s", r.Name, r.line, r.System, option, why))
}

// at names the line and an option.
func (r *reader) at(option string) string {
	return fmt.Sprintf("%s:%d: %s %s", r.Name, r.line, r.System, option)
}

// isIgnored reports whether an option is to be left out.
func (r *reader) isIgnored(names ...string) bool {
	for _, name := range names {
		if name != "" && slices.Contains(r.ignore, name) {
			r.used[name] = true
			return true
		}
	}
	return false
}

// options takes in the options of a line.
func (r *reader) options(line string) {
	all, err := words(line)
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("%s:%d: %s: %w", r.Name, r.line, r.System, err))
		return
	}
	table := slurmOptions()
	if r.System == PBS {
		table = pbsOptions()
	}
	for len(all) > 0 {
		word := all[0]
		all = all[1:]
		o, value, inline := find(table, word)
		switch {
		case o == nil && strings.Contains(word, "=") && r.isIgnored(strings.TrimPrefix(word[:strings.Index(word, "=")], "--")):
			continue
		case o == nil:
			r.refuse(word, unknown(table, word))
			return // whether the next word is its value cannot be told
		case o.value == never && inline:
			r.refuse(o.name(), "takes no value")
			continue
		case o.value == always && !inline:
			if len(all) == 0 {
				r.refuse(o.name(), "lacks its value")
				return
			}
			value, all = all[0], all[1:]
		}
		switch {
		case r.isIgnored(o.long, o.short):
		case o.read == nil:
			r.refuse(o.name(), o.ours)
			if name := strings.TrimLeft(o.name(), "-"); !slices.Contains(r.leave, name) {
				r.leave = append(r.leave, name)
			}
		default:
			if err := o.read(r, value); err != nil {
				r.refuse(o.name(), err.Error())
			}
		}
	}
}

// find returns the option that a word is, with a value that is part of the word; nil if there is none.
func find(table []option, word string) (o *option, value string, inline bool) {
	if name, ok := strings.CutPrefix(word, "--"); ok {
		name, value, inline = strings.Cut(name, "=")
		i := slices.IndexFunc(table, func(o option) bool { return o.long != "" && o.long == name })
		if i < 0 {
			return nil, "", false
		}
		return &table[i], value, inline
	}
	if len(word) < 2 || word[0] != '-' {
		return nil, "", false
	}
	i := slices.IndexFunc(table, func(o option) bool { return o.short == word[1:2] })
	if i < 0 {
		return nil, "", false
	}
	return &table[i], word[2:], len(word) > 2
}

// unknown says that there is no such option, and which one may be meant.
func unknown(table []option, word string) string {
	name, _, _ := strings.Cut(word, "=")
	nearest, least := "", 4
	for i := range table {
		for _, known := range []string{"--" + table[i].long, "-" + table[i].short} {
			if len(known) > 2 && len(name) < 100 {
				if d := levenshtein.Distance(known, name, nil); d < least {
					nearest, least = known, d
				}
			}
		}
	}
	if nearest != "" {
		return fmt.Sprintf("is not known; is %s meant?", nearest)
	}
	return "is not known"
}

// finish looks at what several lines say together.
func (r *reader) finish() {
	if r.MiBPerCPU > 0 {
		if r.MiB > 0 {
			r.errs = append(r.errs, fmt.Errorf("%s: the memory is given for each CPU and for all: leave one out", r.memory))
		}
		r.MiB = r.MiBPerCPU * max(r.CPUs, 1)
	}
	if r.System != None && r.CPUs == 0 {
		r.CPUs = 1 // what batch systems give
	}
	if r.join == "oe" {
		if r.Output == nil && r.Error != nil {
			r.errs = append(r.errs, fmt.Errorf("%s: -j oe sends the error output to the file of -o, which is not given", r.Error.At))
		}
		r.Error = r.Output
	}
	if r.System == Slurm && r.Error == nil {
		r.Error = r.Output
	}
	for _, f := range []*File{r.Output, r.Error} {
		if f == nil {
			continue
		}
		if _, err := r.Shell(f); err != nil {
			r.errs = append(r.errs, fmt.Errorf("%s: %w", f.At, err))
		}
	}
}
