// Command moving makes the moving picture of the README from a recorded session of a terminal: "moving SESSION >PICTURE" draws it
// as an SVG that moves by itself, the same for the same session to the last byte. "moving -bin BIN SESSION" records a session of
// a new daemon with the programs in BIN, in tmux. "moving -still 80x24 >PICTURE" draws what "tmux capture-pane -e" has printed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
)

// session is what a terminal has shown.
type session struct {
	Columns int     `json:"columns"`
	Rows    int     `json:"rows"`
	Frames  []frame `json:"frames"`
}

// frame is what has changed at a time: rows by their number from 0, with the colors of ANSI.
type frame struct {
	Milliseconds int            `json:"ms"`
	Rows         map[int]string `json:"rows"`
}

func main() {
	bin := flag.String("bin", "", "record a session with the programs in this directory")
	still := flag.String("still", "", "draw one screen of this size, such as 80x24, from the standard input")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *bin, *still, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "moving:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, still, path string) error {
	if still != "" {
		s := &session{Frames: []frame{{Rows: map[int]string{}}}}
		if _, err := fmt.Sscanf(still, "%dx%d", &s.Columns, &s.Rows); err != nil {
			return fmt.Errorf("-still %s: %w", still, err)
		}
		screen, err := io.ReadAll(os.Stdin)
		if err != nil {
			return err
		}
		for n, text := range rowsOf(string(screen)) {
			if n < s.Rows {
				s.Frames[0].Rows[n] = text
			}
		}
		_, err = os.Stdout.WriteString(draw(s))
		return err
	}
	if bin != "" {
		s, err := record(ctx, bin)
		if err != nil {
			return err
		}
		text, err := json.MarshalIndent(s, "", " ")
		if err != nil {
			return err
		}
		return os.WriteFile(path, append(text, '\n'), 0o644)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	s := &session{}
	if err := json.Unmarshal(text, s); err != nil {
		return err
	}
	_, err = os.Stdout.WriteString(draw(s))
	return err
}

// rowsOf returns the rows of a screen that tmux has captured, each of which begins with the colors that the one before has left: tmux
// says only what changes.
func rowsOf(screen string) []string {
	all := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
	left := ""
	for i, text := range all {
		all[i] = left + text
		for _, codes := range sequences.FindAllString(text, -1) {
			if codes == "\x1b[0m" || codes == "\x1b[m" {
				left = ""
				continue
			}
			left += codes
		}
	}
	return all
}

var sequences = regexp.MustCompile("\x1b\\[[0-9;]*m")
