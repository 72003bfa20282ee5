package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A machine that answers without an end is read no further than any answer goes.
func TestAnAnswerWithoutAnEnd(t *testing.T) {
	here, there := net.Pipe()
	written := make(chan int64)
	go func() {
		if r, err := http.ReadRequest(bufio.NewReader(there)); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		n, _ := io.Copy(there, io.MultiReader(
			strings.NewReader("HTTP/1.1 201 Created\r\nContent-Type: application/json\r\n\r\n{\"kind\": \""), io.LimitReader(endless{}, 8*maxReview)))
		written <- n
	}()
	begin := time.Now()
	namespace, answered := askNamespace(t.Context(), here)
	if n := <-written; namespace != "" || !answered || n > 2*maxReview {
		t.Errorf("%q, %v after %v and %d bytes", namespace, answered, time.Since(begin), n)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}
