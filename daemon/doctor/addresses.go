package doctor

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
)

// addresses asks a running daemon whether it serves the API on all addresses of the settings; without one it looks whether they are free.
func addresses(ctx context.Context, p *patient) (string, error) {
	wanted := slices.DeleteFunc([]string{p.wanted.Listen, p.wanted.MultiKueueListen}, func(at string) bool { return at == "" })
	if is := running(ctx, p.wanted.Socket); is != nil {
		for _, why := range is.Waiting {
			p.logger.Warn(why)
		}
		return strings.Join(wanted, ", "), nil
	}
	for _, at := range wanted {
		l, err := net.Listen("tcp", at)
		if err != nil {
			p.logger.Warn(fmt.Sprintf("the API cannot be served on %s: %v", at, err))
			continue
		}
		_ = l.Close()
	}
	return strings.Join(wanted, ", "), nil
}
