package why

import (
	"bufio"
	"io"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// LogOptions ask for as much of what a container has written as an explanation shows (Cause.Log).
func LogOptions(container string, previous bool) *corev1.PodLogOptions {
	return &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: ptr.To[int64](10), LimitBytes: ptr.To[int64](4 << 10),
	}
}

// LogLines reads the answer to LogOptions and closes it. Nothing is shown of a log that cannot be had.
func LogLines(r io.ReadCloser, err error) (lines []string) {
	if err != nil {
		return nil
	}
	defer r.Close()
	for text := bufio.NewScanner(r); text.Scan(); {
		lines = append(lines, text.Text())
	}
	return lines
}
