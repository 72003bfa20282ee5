package maintenance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	wire "github.com/jobd/jobd/api/database"
	"github.com/jobd/jobd/api/inspection"
	"github.com/jobd/jobd/internal/ask"
)

// liveDatabase is the database of a running daemon, which is asked over its socket.
type liveDatabase struct{ daemon ask.Daemon }

// findLiveDatabase finds the daemon that serves the database at path, and no other.
func findLiveDatabase(ctx context.Context, socket, path string) (*liveDatabase, error) {
	d := &liveDatabase{ask.Unix(socket)}
	var is wire.Description
	describe := func(answer io.Reader) error { return json.NewDecoder(answer).Decode(&is) }
	if err := d.ask(ctx, http.MethodGet, "", describe); err != nil {
		return nil, err
	}
	mine, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if its, err := os.Stat(is.File); err != nil || !os.SameFile(mine, its) {
		return nil, fmt.Errorf("the jobd at %s has another one open, %s: choose its --state or --socket", socket,
			is.File)
	}
	return d, nil
}

func (d *liveDatabase) Check(ctx context.Context) (refused []string, err error) {
	var found wire.Findings
	err = d.ask(ctx, http.MethodPost, "check", func(answer io.Reader) error {
		if err := json.NewDecoder(answer).Decode(&found); !errors.Is(err, io.EOF) { // that of an older daemon is empty
			return err
		}
		return nil
	})
	return found.Refused, err
}

func (d *liveDatabase) Backup(ctx context.Context, w io.Writer) error {
	return d.ask(ctx, http.MethodGet, "backup", func(answer io.Reader) error {
		_, err := io.Copy(w, answer)
		return err
	})
}

func (d *liveDatabase) Compact(ctx context.Context) (before, after int64, err error) {
	var sizes wire.Sizes
	err = d.ask(ctx, http.MethodPost, "compact",
		func(answer io.Reader) error { return json.NewDecoder(answer).Decode(&sizes) })
	return sizes.Before, sizes.After, err
}

func (d *liveDatabase) ask(ctx context.Context, method, op string, read func(io.Reader) error) error {
	return d.daemon.Do(ctx, method, wire.Path+"?op="+op, read)
}

// Inspect returns what the daemon at a socket is doing.
func Inspect(ctx context.Context, socket string) (*inspection.Daemon, error) {
	is := &inspection.Daemon{}
	return is, ask.Unix(socket).JSON(ctx, http.MethodGet, inspection.Path, is)
}
