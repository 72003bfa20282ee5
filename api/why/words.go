package why

import (
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// At returns a time for a Cause, nil if there is none.
func At(t time.Time) *metav1.Time {
	if t.IsZero() || t.Unix() <= 0 {
		return nil
	}
	m := metav1.NewTime(t)
	return &m
}

// Sentence returns a message of others as a sentence of its own.
func Sentence(s string) string {
	s = strings.TrimSpace(s)
	if last, _ := utf8.DecodeLastRuneInString(s); s == "" || strings.ContainsRune(".!?…", last) {
		return s
	}
	return s + "."
}

// longest is how long a Brief may be, in characters.
const longest = 120

// Clause returns a message of others as a Brief: its first line, as long as may be.
func Clause(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	s = strings.TrimRight(s, ". ")
	if all := []rune(s); len(all) > longest {
		return string(all[:longest-1]) + "…"
	}
	return s
}
