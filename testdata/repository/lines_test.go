package repository

import (
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// columns is how long a line of Go may be, with tabs of four columns.
	columns = 160
	// longString is the length from which a string literal is left as it is: a manifest in one line, or a message that
	// somebody searches for.
	longString = 80
)

// aligned is what gofmt puts between the keys of a table and their values, which is no fault of the line.
var aligned = regexp.MustCompile(`: {2,}`)

// TestLines finds lines that are too long to be read beside something else.
func TestLines(t *testing.T) {
	list, err := exec.CommandContext(t.Context(), "git", "ls-files", "*.go", ":!api/openapi/*").Output()
	if err != nil {
		t.Skip("this is no checkout: ", err)
	}
	for _, path := range strings.Fields(string(list)) {
		source, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // it is being removed
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range tooLong(source) {
			t.Errorf("%s:%d has more than %d columns", path, line, columns)
		}
	}
}

// tooLong returns the numbers of the lines that have too many columns, and no string to blame for that.
func tooLong(source []byte) (numbers []int) {
	excused := map[int]bool{}
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(source))
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.STRING && len(literal) >= longString {
			for i := range strings.Count(literal, "\n") + 1 {
				excused[file.Line(pos)+i] = true
			}
		}
	}
	for i, line := range strings.Split(string(source), "\n") {
		line = aligned.ReplaceAllString(strings.ReplaceAll(line, "\t", "    "), ": ")
		if utf8.RuneCountInString(line) > columns && !excused[i+1] {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}
