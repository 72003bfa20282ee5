package doctor

import (
	"context"
	"fmt"
	"net/http"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/internal/ask"
	"github.com/jobd/jobd/internal/printable"
)

// lostNotices asks the daemon that runs here, if one does, which notices it could not deliver.
func lostNotices(ctx context.Context, p *patient) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, daemonAnswers)
	defer cancel()
	var list notices.List
	if ask.Unix(p.wanted.Socket).JSON(ctx, http.MethodGet, notices.Path, &list) != nil || len(list.Items) == 0 {
		return "", nil // no daemon runs, and so there is nobody to be told; or an older one, or one without receivers
	}
	for _, r := range list.Items {
		switch {
		case r.Unwritten != "":
			p.logger.Warn(fmt.Sprintf("%s is not told of %d notices, since it cannot be written down that it was: %s",
				r.Name, r.Pending, printable.Line(r.Unwritten)))
		case r.Lost > 0:
			p.logger.Warn(fmt.Sprintf("%d notices could not be delivered to %s, the last of %s; it said: %s",
				r.Lost, r.Name, r.LostLast, printable.Line(r.LastError)))
		case r.LastError != "":
			p.logger.Warn(fmt.Sprintf("%d notices wait for %s, which said: %s", r.Pending, r.Name, printable.Line(r.LastError)))
		}
	}
	return fmt.Sprintf("%d receivers", len(list.Items)), nil
}
