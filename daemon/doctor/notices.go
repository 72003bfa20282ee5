package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/jobd/jobd/api/notices"
	"github.com/jobd/jobd/internal/printable"
)

// lostNotices asks the daemon that runs here, if one does, which notices it could not deliver.
func lostNotices(ctx context.Context, p *patient) (string, error) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", p.wanted.Socket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://jobd"+notices.Path, nil)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", nil // no daemon runs, and so there is nobody to be told
	}
	defer response.Body.Close()
	var list notices.List
	if response.StatusCode != http.StatusOK || json.NewDecoder(response.Body).Decode(&list) != nil || len(list.Items) == 0 {
		return "", nil // an older one, or one without receivers
	}
	for _, r := range list.Items {
		switch {
		case r.Lost > 0:
			p.logger.Warn(fmt.Sprintf("%d notices could not be delivered to %s, the last of %s; it said: %s",
				r.Lost, r.Name, r.LostLast, printable.Line(r.LastError)))
		case r.LastError != "":
			p.logger.Warn(fmt.Sprintf("%d notices wait for %s, which said: %s", r.Pending, r.Name, printable.Line(r.LastError)))
		}
	}
	return fmt.Sprintf("%d receivers", len(list.Items)), nil
}
