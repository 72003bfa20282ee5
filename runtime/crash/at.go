//go:build crash

package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Files of the directory that the environment variable JOBD_CRASH names.
const (
	armed  = "armed"  // a point, and at which passing of it a process ends; written by the test
	fired  = "fired"  // the same, once that has happened: to one process
	passed = "passed" // all points that were passed, one a line
	hangs  = "hangs"  // a point at which a process hangs whenever it passes it, after spin or block; written by the test
)

var (
	dir = os.Getenv("JOBD_CRASH")

	mu    sync.Mutex
	order string // what armed says
	times int    // that its point was passed since
)

// At marks a point by its name in parts. When the test has armed that point, the process ends here.
func At(parts ...string) {
	if dir == "" {
		return
	}
	point := strings.Join(parts, ".")
	mu.Lock()
	defer mu.Unlock()
	if list, err := os.OpenFile(filepath.Join(dir, passed), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		fmt.Fprintln(list, point)
		list.Close()
	}
	content, _ := os.ReadFile(filepath.Join(dir, armed))
	if string(content) != order {
		order, times = string(content), 0
	}
	number, found := strings.CutPrefix(order, point+" ") // there may be blanks in a name
	last, err := strconv.Atoi(number)
	if !found || err != nil {
		return
	}
	if times++; times < last || os.Rename(filepath.Join(dir, armed), filepath.Join(dir, fired)) != nil {
		return
	}
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}
