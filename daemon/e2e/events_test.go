package e2e

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventsAreOnThePage looks whether docs/events.md explains each event that a daemon has stored. A daemon that does not
// answer is not asked: it may have been killed on purpose.
func (d *daemon) eventsAreOnThePage() {
	page, err := os.ReadFile("../../docs/events.md")
	if errors.Is(err, fs.ErrNotExist) {
		return // the emulated machine has no documentation
	}
	if err != nil {
		d.t.Error(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	events, err := d.CoreV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	unknown := map[string]string{}
	for _, e := range events.Items {
		resource := strings.HasPrefix(e.Reason, "OutOf") // OutOfcpu and so on, of any resource
		if ours := e.ReportingController != "" || e.Source.Component != ""; ours && !resource && !strings.Contains(string(page), "`"+e.Reason+"`") {
			unknown[e.Reason] = e.Message
		}
	}
	for reason, message := range unknown {
		d.t.Errorf("docs/events.md does not explain the event %s (%s)", reason, message)
	}
}
