package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is one tab of a headless Chromium. What its console reports of errors, among them violations of the page's
// Content-Security-Policy, fails the test when it ends.
type browser struct {
	t   *testing.T
	ctx context.Context

	mu    sync.Mutex
	wrong []string
}

// openBrowser starts a browser with a profile of its own.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("needs chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.WindowSize(1100, 900), chromedp.IgnoreCertErrors, chromedp.UserDataDir(t.TempDir()),
		chromedp.WSURLReadTimeout(patience))
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, end := chromedp.NewContext(allocated)
	t.Cleanup(end)
	b := &browser{t: t, ctx: ctx}
	// The first action starts the browser, which would end with the context of that action.
	if err := chromedp.Do(ctx); err != nil {
		t.Fatalf("start the browser: %v", err)
	}
	err := chromedp.Listen(ctx, func(event any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			b.wrong = append(b.wrong, fmt.Sprintf("exception: %+v", e.ExceptionDetails))
		case *log.EventEntryAdded:
			// Answers of errors are reported too: of a daemon that was killed, or of a role that forbids something.
			if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
				b.wrong = append(b.wrong, fmt.Sprintf("%s: %s", e.Entry.Source, e.Entry.Text))
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// do carries out actions, all of them within the patience of a test.
func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.fail(err)
	}
}

// fail ends the test, and says what the page shows.
func (b *browser) fail(err error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href.replace(/#.*/, '') + '\n' + document.body.innerText`))
	b.t.Fatalf("%v; the page shows\n%s\nthe console %q", err, text, b.errors())
}

// errors are those of the console.
func (b *browser) errors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.wrong
}

// until waits until a JavaScript expression holds.
func (b *browser) until(expression string) {
	b.t.Helper()
	var err error // that of a page which is just being left is none
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		var is bool
		if is, err = evaluate[bool](b, "!!("+expression+")"); is {
			return
		}
	}
	b.fail(fmt.Errorf("not within %v: %s (%v)", patience, expression, err))
}

// shows waits until the page shows a text.
func (b *browser) shows(text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("document.body?.innerText.includes(%q)", text))
}

// value returns the value of a JavaScript expression, which may be a promise.
func value[T any](b *browser, expression string) T {
	b.t.Helper()
	v, err := evaluate[T](b, expression)
	if err != nil {
		b.fail(fmt.Errorf("%s: %w", expression, err))
	}
	return v
}

func evaluate[T any](b *browser, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// at goes to a place of the page, such as "jobs/default/pi".
func (b *browser) at(place string) {
	b.t.Helper()
	value[string](b, fmt.Sprintf("location.hash = '#/' + %q", place))
}

// wide makes the screen so many pixels wide.
func (b *browser) wide(pixels int64) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: pixels, Height: 900}); err != nil {
		b.t.Fatal(err)
	}
}

// loses makes every request fail whose address fits one of the patterns.
func (b *browser) loses(patterns ...string) {
	b.t.Helper()
	blocked := network.SetBlockedURLsParams{URLPatterns: []*network.BlockPattern{}}
	for _, pattern := range patterns {
		blocked.URLPatterns = append(blocked.URLPatterns, &network.BlockPattern{URLPattern: pattern, Block: true})
	}
	if _, err := chromedp.Call(b.ctx, network.Enable, network.EnableParams{}); err != nil {
		b.t.Fatal(err)
	}
	if _, err := chromedp.Call(b.ctx, network.SetBlockedURLs, blocked); err != nil {
		b.t.Fatal(err)
	}
}

// sound fails the test if the console has reported an error.
func (b *browser) sound() {
	b.t.Helper()
	for _, wrong := range b.errors() {
		b.t.Errorf("in the browser: %s", wrong)
	}
}

// cell is where an index of a Job's picture is drawn on the screen, computed from the size of the drawing: cells are
// squares, in rows from the left, the largest that fit.
func (b *browser) cell(index, count int) (x, y float64) {
	b.t.Helper()
	b.until(`document.querySelector('canvas')?.style.height`) // it is drawn in the frame after its words are set
	box := value[[]float64](b, `(() => { const c = document.querySelector('canvas'); c.scrollIntoView({block: 'center'});
		const r = c.getBoundingClientRect(); return [r.x, r.y, c.parentElement.clientWidth, r.height]; })()`)
	for size := 26; size > 0; size-- {
		columns := min(count, int(box[2])/size)
		if rows := (count + columns - 1) / columns; rows*size == int(box[3]+0.5) {
			// In whole pixels, since a cell may be as small as one.
			return math.Ceil(box[0]) + float64(index%columns*size+size/2), math.Ceil(box[1]) + float64(index/columns*size+size/2)
		}
	}
	b.t.Fatalf("%d cells in a drawing of %v", count, box)
	return 0, 0
}

// click clicks at the cell of an index until an expression holds.
func (b *browser) click(index, count int, holds string) {
	b.t.Helper()
	b.tryAt(index, count, holds, func(x, y float64) { b.do(chromedp.MouseClickXY(x, y)) })
}

// point points at the cell of an index until an expression holds.
func (b *browser) point(index, count int, holds string) {
	b.t.Helper()
	b.tryAt(index, count, holds, func(x, y float64) {
		b.do(chromedp.MouseEvent(chromedp.MouseMoved, x+1, y+1), chromedp.MouseEvent(chromedp.MouseMoved, x, y))
	})
}

// tryAt does something at the cell of an index, again and again until an expression holds: what comes in meanwhile moves the drawing.
func (b *browser) tryAt(index, count int, holds string, do func(x, y float64)) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; {
		do(b.cell(index, count))
		for range 100 {
			if is, err := evaluate[bool](b, "!!("+holds+")"); err == nil && is {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		if time.Now().After(end) {
			b.fail(fmt.Errorf("not within %v of tries: %s", patience, holds))
		}
	}
}

// dashboard runs `jobctl dashboard` until the test ends, and returns its link.
func (d *daemon) dashboard(flags ...string) (link string) {
	d.t.Helper()
	cmd := exec.Command(filepath.Join(bin, "jobctl"), append([]string{"dashboard", "--open=false"}, flags...)...)
	cmd.Env = append(cmd.Environ(), "JOBD_SOCKET="+d.socket(), "HOME="+d.t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	_, link, found := strings.Cut(strings.TrimSpace(line), "The page is at ")
	if err != nil || !found {
		d.t.Fatalf("jobctl dashboard says %q: %v", line, err)
	}
	return link
}
