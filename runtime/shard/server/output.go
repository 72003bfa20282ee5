package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/jobd/jobd/runtime/logs"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

const (
	// drainTime is how long the end of a container waits for others that hold its output open.
	drainTime = time.Second
	// drainBytes bounds how much of that output is read afterwards: more than a pipe holds.
	drainBytes = 2 * gatherRoom
)

// output copies what a container writes into its log. It comes through named pipes, which the container has open for
// reading as well: when the shard dies the container does not notice, and what it writes waits for the next shard.
type output struct {
	sources      [2]*source // the pipes; or the terminal alone
	log          *logs.File // nil: dropped
	roomy        bool       // the log's files are so large that they may exceed their size by a large buffer
	broadcasters [2]broadcaster
	done         sync.WaitGroup
	ending       chan struct{} // closed when the container has ended
	last         atomic.Bool   // whoever still writes is not waited for
	drained      chan struct{} // closed when everything was read

	mu  sync.Mutex
	err error // the first one of writing the log
}

// openOutput opens the log and the reading ends of the pipes, which this shard or a dead one has made. A terminal
// exists only once the container does.
func (c *container) openOutput() (*output, error) {
	o := &output{ending: make(chan struct{}), drained: make(chan struct{})}
	if !c.record.Terminal {
		for i, name := range []string{stdoutFIFO, stderrFIFO} {
			var err error
			if o.sources[i], err = openSource(filepath.Join(c.dir, name)); err != nil {
				o.close()
				return nil, fmt.Errorf("output: %w", err)
			}
		}
	}
	if path := c.record.LogPath; path != "" {
		f, err := logs.OpenFile(path, logs.Limit{MaxSize: c.record.LogMaxSize, MaxFiles: c.record.LogMaxFiles})
		if err != nil {
			o.close()
			return nil, fmt.Errorf("log: %w", err)
		}
		o.log, o.roomy = f, c.record.LogMaxSize == 0 || c.record.LogMaxSize >= 8*logs.LargeBuffer
	}
	return o, nil
}

// makeFIFOs makes named pipes that belong to the root of the users.
func makeFIFOs(dir string, names []string, of *users) error {
	for _, name := range names {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			return fmt.Errorf("output: %w", &os.PathError{Op: "mkfifo", Path: filepath.Join(dir, name), Err: err})
		}
		if of != nil {
			if err := os.Lchown(filepath.Join(dir, name), int(of.Root), int(of.Root)); err != nil {
				return fmt.Errorf("output: %w", err)
			}
		}
	}
	return nil
}

// terminal returns another handle of the container's terminal.
func (o *output) terminal() (*os.File, error) {
	var copied *os.File
	err := protocol.WithDescriptors([]*os.File{o.sources[0].file}, nil, func(fds []int) error {
		fd, err := unix.FcntlInt(uintptr(fds[0]), unix.F_DUPFD_CLOEXEC, 0)
		copied = os.NewFile(uintptr(fd), "terminal")
		return err
	})
	return copied, err
}

// openContainerEnds opens what a container gets as its standard streams.
func openContainerEnds(dir string, null func() (*os.File, error)) (files [3]*os.File, err error) {
	if files[0], err = null(); err != nil {
		return files, fmt.Errorf("input: %w", err)
	}
	for i, name := range []string{stdoutFIFO, stderrFIFO} {
		path := filepath.Join(dir, name)
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			protocol.CloseAll(files[:])
			return files, fmt.Errorf("output: %w", &os.PathError{Op: "open", Path: path, Err: err})
		}
		files[i+1] = os.NewFile(uintptr(fd), path)
	}
	return files, nil
}

// copy starts to copy the output into the log.
func (o *output) copy(buffers *logs.Buffers) {
	var w *logs.Writer
	if o.log != nil {
		w = logs.NewWriter(o.log, buffers)
	}
	for i, stream := range []logs.Stream{logs.Stdout, logs.Stderr} {
		var sink io.WriteCloser = discard{}
		if w != nil {
			sink = w.Stream(stream)
		}
		s, listeners := o.sources[i], &o.broadcasters[i]
		if s == nil {
			listeners.end()
			continue
		}
		o.done.Go(func() {
			defer listeners.end()
			o.copyStream(s, sink, listeners, buffers)
		})
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Close() error                { return nil }

func (o *output) copyStream(s *source, sink io.WriteCloser, listeners *broadcaster, buffers *logs.Buffers) {
	// take reads until there is nothing more for now; a buffer is borrowed only for that long.
	take := func() (ended bool) {
		buffer := buffers.Get(s.large && o.roomy && !listeners.heard())
		defer buffers.Put(buffer)
		for rest := drainBytes; rest > 0; {
			n, err := s.read(*buffer)
			switch {
			case err == unix.EAGAIN:
				return false
			case err != nil || n == 0:
				return true
			}
			if _, err := sink.Write((*buffer)[:n]); err != nil {
				o.failed(err)
			}
			listeners.tell((*buffer)[:n])
			if o.last.Load() {
				rest -= n
			}
		}
		return true
	}
	for !take() {
		if err := s.wait(o.ending); errors.Is(err, os.ErrDeadlineExceeded) {
			take()
			break
		} else if err != nil {
			o.failed(err)
			break
		}
	}
	if err := sink.Close(); err != nil {
		o.failed(err)
	}
}

func (o *output) failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
}

// drain waits until everything that was written is in the log, for a bounded time when somebody holds the pipes open,
// and returns what went wrong with the log. It is called once, after the container's end.
func (o *output) drain() error {
	close(o.ending)
	for i := range o.broadcasters {
		o.broadcasters[i].hurry()
	}
	stop := time.AfterFunc(drainTime, func() {
		o.last.Store(true)
		for _, s := range o.sources {
			if s != nil {
				s.giveUp()
			}
		}
	})
	o.done.Wait()
	stop.Stop()
	close(o.drained)
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

func (o *output) close() {
	for _, s := range o.sources {
		s.close()
	}
	if o.log != nil {
		o.log.Close()
	}
}
