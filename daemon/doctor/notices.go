package doctor

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/internal/ask"
	"github.com/jobd/jobd/internal/printable"
)

// recent is for how long it is a lack that a notice was lost or refused: nothing that is done about it brings it back.
const recent = 7 * 24 * time.Hour

// lostNotices asks the daemon that runs here, if one does, which notices it could not deliver.
func lostNotices(ctx context.Context, p *patient) (string, error) {
	for _, text := range unusable(p.wanted.NotifyReceivers) {
		p.logger.Warn(text, helps, "correct notify-receivers, or what it names; docs/notices.md")
	}
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
	if known == 1 {
		return "1 receiver", nil
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

// unusable returns what receivers of the settings need and the machine does not have, or shows to others.
func unusable(all notify.Receivers) (said []string) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		say := func(setting string, err error) {
			if err != nil {
				said = append(said, fmt.Sprintf("the receiver %s cannot work, or is not safe: %s: %v", name, setting, err))
			}
		}
		switch {
		case r.Webhook != nil:
			say("url-file", secret(r.Webhook.URLFile))
			say("secret-file", secret(r.Webhook.SecretFile))
		case r.Mail != nil:
			say("sendmail", program(r.Mail.SendmailPath()))
			say("password-file", secret(r.Mail.PasswordFile))
		case r.Command != nil:
			say("command", program(r.Command.Args[0]))
		case r.Healthcheck != nil:
			say("url-file", secret(r.Healthcheck.URLFile))
		}
	}
	return said
}

// secret returns why a file with a secret cannot be used, or is none; nil without a file.
func secret(path string) error {
	info, err := inspect(path)
	switch {
	case err != nil || info == nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", path)
	case info.Size() == 0:
		return fmt.Errorf("%s is empty", path)
	case info.Mode().Perm()&0o037 != 0: // a group may be given it
		return fmt.Errorf("others can read or write %s (mode %o): chmod 0600 %s", path, info.Mode().Perm(), path)
	}
	return nil
}

// program returns why a program cannot be run; nil without one.
func program(path string) error {
	info, err := inspect(path)
	if err != nil || info == nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
		return fmt.Errorf("%s is not executable", path)
	}
	return nil
}

// inspect returns what a file is; nil without one.
func inspect(path string) (fs.FileInfo, error) {
	if path == "" {
		return nil, nil
	}
	return os.Stat(path)
}
