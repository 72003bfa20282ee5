package picture

import (
	"math"
	"strconv"
	"strings"

	"github.com/jobd/jobd/internal/printable"
)

// progressMark begins a line by which a container says how far it is: "::progress 40 epoch 4".
const progressMark = "::progress "

const (
	// MaxProgress is how many pods a picture has the progress of at most.
	MaxProgress = 50
	// maxProgressWords is how many characters of the words are shown.
	maxProgressWords = 60
)

// Progress is how far the pods that run say they are, by the last such line of their output.
type Progress struct {
	Pods []PodProgress `json:"pods"`
}

// PodProgress is how far a pod says it is.
type PodProgress struct {
	Pod  string `json:"pod"`
	Cell int    `json:"cell"` // -1: it has none
	// Percent is from 0 to 100, Words what it says beside.
	Percent int    `json:"percent"`
	Words   string `json:"words,omitempty"`
}

// ParseProgress reads a line of a container's output. The number may have a fraction or a percent sign; what is no such line is not ok.
func ParseProgress(line string) (percent int, words string, ok bool) {
	rest, ok := strings.CutPrefix(line, progressMark)
	if !ok {
		return 0, "", false
	}
	number, words, _ := strings.Cut(strings.TrimLeft(rest[:min(len(rest), 1024)], " "), " ")
	f, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimRight(number, "\r"), "%"), 64)
	if err != nil || !(f >= 0 && f <= 100) {
		return 0, "", false
	}
	words = strings.TrimSpace(printable.Line(words))
	if all := []rune(words); len(all) > maxProgressWords {
		words = string(all[:maxProgressWords-1]) + "…"
	}
	return int(math.Floor(f)), words, true
}
