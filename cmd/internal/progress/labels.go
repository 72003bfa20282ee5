package progress

import (
	"fmt"
	"hash/fnv"
	"os"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"

	"github.com/jobd/jobd/internal/printable"
)

// Labels say on a terminal which pod has written a line of a Job's log, each pod in its color. The zero value has none.
type Labels struct {
	pods, containers bool // there may be several
	full             bool
	color            bool
}

// LabelsOf returns the labels of the log of a Job. They are short, and there are none where there is one pod with one container;
// if they are to be full, each is what Prefix returns.
func LabelsOf(j *batchv1.Job, full, color bool) Labels {
	spec := &j.Spec.Template.Spec
	return Labels{
		pods:       ptr.Deref(j.Spec.Parallelism, 1) > 1 || ptr.Deref(j.Spec.Completions, 1) > 1,
		containers: len(spec.InitContainers)+len(spec.Containers) > 1,
		full:       full, color: color,
	}
}

// Any reports whether there are labels at all.
func (l Labels) Any() bool { return l.full || l.pods || l.containers }

// mostLabel is how wide the values of an index may be in a short label.
const mostLabel = 24

// Of returns what stands before a line; empty if nothing does.
func (l Labels) Of(s Source) string {
	if !l.Any() {
		return ""
	}
	label := s.Prefix()
	if !l.full && s.Label == "" {
		label = l.short(s)
	}
	if !l.color {
		return label
	}
	return paintLabel(s, label)
}

func (l Labels) short(s Source) string {
	var parts []string
	if l.pods {
		name := s.Pod[strings.LastIndexByte(s.Pod, '-')+1:]
		if s.Index != nil {
			name = strconv.Itoa(*s.Index)
		}
		if s.Values != "" {
			name += " " + ansi.Truncate(printable.Line(s.Values), mostLabel, "…")
		}
		parts = append(parts, name)
	}
	if l.containers && s.Container != "" {
		parts = append(parts, s.Container)
	}
	return "[" + strings.Join(append(parts, s.numbers()...), " ") + "] "
}

// labelColors are those of 16 that mean nothing bad.
var labelColors = []int{36, 33, 35, 32, 34}

// paintLabel gives what stands before a line the color of its pod: neighbours among the indexes have different ones.
func paintLabel(s Source, label string) string {
	var n uint32
	if s.Index != nil && s.Label == "" {
		n = uint32(*s.Index)
	} else {
		of := fnv.New32a()
		_, _ = of.Write([]byte(s.Pod))
		n = of.Sum32()
	}
	text, space := strings.CutSuffix(label, " ")
	if space {
		return fmt.Sprintf("\x1b[%dm%s\x1b[0m ", labelColors[n%uint32(len(labelColors))], text)
	}
	return label
}

// Colors reports whether what is written to something may have colors: it is a terminal, and nobody has said otherwise.
func Colors(stream any) bool {
	_, ok := IsTerminal(stream)
	return ok && os.Getenv("NO_COLOR") == ""
}
