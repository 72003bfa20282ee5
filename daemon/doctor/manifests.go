package doctor

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/jobd/jobd/api/inspection"
	"github.com/jobd/jobd/daemon/manifests"
	"github.com/jobd/jobd/internal/ask"
)

// daemonAnswers is how long a running daemon may take to say what it knows.
const daemonAnswers = 3 * time.Second

// manifestsDir looks at the directory of manifests as the daemon does, and asks a running one what it could not apply.
func manifestsDir(ctx context.Context, p *patient) (string, error) {
	dir := p.wanted.ManifestsDir()
	if dir == "" {
		return "", nil
	}
	files, err := manifests.Read(dir)
	if err != nil {
		return "", err
	}
	told, objects := map[manifests.Problem]bool{}, 0
	warn := func(problem manifests.Problem, help string) {
		if !told[problem] {
			told[problem] = true
			p.logger.Warn(filepath.Join(dir, problem.File)+": "+problem.Message, helps, help)
		}
	}
	const wrong, odd = "correct the file; what was applied from it before stays as it is", "it was applied, but that has no effect, or another than meant"
	wanted, _, problems := manifests.Plan(files, nil)
	for _, problem := range problems {
		warn(problem, wrong)
	}
	objects = len(wanted)
	if is := running(ctx, p.wanted.Socket); is != nil && is.Manifests != nil {
		for _, problem := range is.Manifests.Problems {
			warn(manifests.Problem(problem), wrong)
		}
		for _, problem := range is.Manifests.Warnings {
			warn(manifests.Problem(problem), odd)
		}
	}
	return fmt.Sprintf("%d objects in %d files of %s", objects, len(files), dir), nil
}

// running asks the daemon on a socket what it is doing; nil if there is none that says so.
func running(ctx context.Context, socket string) *inspection.Daemon {
	if _, err := os.Stat(socket); err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, daemonAnswers)
	defer cancel()
	is := &inspection.Daemon{}
	if ask.Unix(socket).JSON(ctx, http.MethodGet, inspection.Path, is) != nil {
		return nil
	}
	return is
}
