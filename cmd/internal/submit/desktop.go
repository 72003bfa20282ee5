package submit

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/jobd/jobd/internal/printable"
)

// notifySend is the program of desktops that shows a notice.
const notifySend = "notify-send"

// notifyTimeout is how long it may take: a desktop that does not answer must not hold up the exit code.
const notifyTimeout = 5 * time.Second

// AddNotifyFlag adds the flag that shows the end of the Job on the desktop.
func (o *FollowOptions) AddNotifyFlag(flags *pflag.FlagSet) {
	flags.BoolVar(&o.Notify, "notify", false, "Show a notice on the desktop of whoever runs this when the Job has ended (notify-send)")
}

// DesktopMissing returns what is said at once if --notify is given and there is nothing to show a notice with; empty if all is well.
func (o *FollowOptions) DesktopMissing() string {
	if !o.Notify {
		return ""
	}
	if _, err := exec.LookPath(notifySend); err != nil {
		return "--notify: there is no " + notifySend + " here, so no notice will be shown when the Job has ended: install libnotify-bin (Debian) or libnotify"
	}
	return ""
}

// tellDesktop shows how a Job has ended. Nothing is shown where nothing can be, which was said before.
func (o *FollowOptions) tellDesktop(e Ended, failed error) error {
	if !o.Notify || e.Interrupted {
		return nil
	}
	program, err := exec.LookPath(notifySend)
	if errors.Is(err, exec.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, desktopNotice(e, failed)...)
	cmd.WaitDelay = time.Second
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the desktop was not told: %s: %w: %s", notifySend, err, printable.Line(strings.TrimSpace(string(said))))
	}
	return nil
}

// desktopNotice returns the arguments that show how a Job has ended. The text may have markup, which is not meant.
func desktopNotice(e Ended, failed error) []string {
	title, text, urgency := "The Job could not be followed", "", "normal"
	switch {
	case failed != nil:
		text, urgency = failed.Error(), "critical"
	default:
		title, text = "Job "+e.Job.Name, e.sentence(e.Job)
		if e.Code != 0 {
			urgency = "critical"
		}
	}
	return []string{"--app-name=jobd", "--urgency=" + urgency, "--", printable.Line(title), html.EscapeString(printable.Line(text))}
}
