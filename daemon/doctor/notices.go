package doctor

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/internal/ask"
	"github.com/jobd/jobd/internal/printable"
)

// recent is for how long it is a lack that a notice was lost or refused: nothing that is done about it brings it back.
const recent = 7 * 24 * time.Hour

// lostNotices asks the daemon that runs here, if one does, which notices it could not deliver.
func lostNotices(ctx context.Context, p *patient) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, daemonAnswers)
	defer cancel()
	var list notices.List
	if ask.Unix(p.wanted.Socket).JSON(ctx, http.MethodGet, notices.Path, &list) != nil || len(list.Items) == 0 {
		return "", nil // no daemon runs, and so there is nobody to be told; or an older one, or one without receivers
	}
	known := 0
	for i := range list.Items {
		if list.Items[i].Kind != "" {
			known++
		}
		for _, text := range unwell(&list.Items[i], time.Now()) {
			p.logger.Warn(text, helps, "jobctl notify says more; docs/notices.md")
		}
	}
	return fmt.Sprintf("%d receivers", known), nil
}

// unwell returns what is wrong with a receiver.
func unwell(r *notices.Receiver, now time.Time) (all []string) {
	say := func(format string, args ...any) { all = append(all, printable.Line(fmt.Sprintf(format, args...))) }
	lately := func(at *time.Time) bool { return at != nil && now.Sub(*at) < recent }
	switch {
	case r.Unwritten != "":
		say("%s is not told of %d notices, since it cannot be written down that it was: %s", r.Name, r.Pending, r.Unwritten)
	case r.LastError != "" && r.Pending > 0:
		say("%d notices wait for %s, which said: %s", r.Pending, r.Name, r.LastError)
	}
	if lately(r.LostAt) {
		why := r.LostError
		if why == "" {
			why = "(an older jobd has not noted it)"
		}
		say("%d notices could not be delivered to %s, the last on %s, of %s: %s", r.Lost, r.Name, r.LostAt.Format(time.DateTime), r.LostLast, why)
	}
	if lately(r.RefusedAt) {
		say("%d notices to %s were refused, the last on %s, of %s: %s",
			r.Refused, r.Name, r.RefusedAt.Format(time.DateTime), r.RefusedLast, r.RefusedError)
	}
	return all
}
