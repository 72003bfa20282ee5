package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/jobd/jobd/internal/files"
	"github.com/jobd/jobd/runtime/shard/protocol"
)

// What is in a container's directory, which is also its bundle.
const (
	configFile = "config.json"
	rootfsDir  = protocol.RootfsDir
	pidFile    = "pid"         // written by the OCI runtime
	runtimeLog = "runtime.log" // the same
	startFile  = "start"       // startRecord; written before the OCI runtime is run
	stateFile  = "state"       // Container; written when it runs, and again when it has ended
	stdoutFIFO = "stdout"
	stderrFIFO = "stderr"
	stdinFIFO  = "stdin" // if the container has one
	stateDir   = "oci"   // a foreign OCI runtime's own
)

// startRecord is what a shard has to know about a container that it finds again.
type startRecord struct {
	protocol.Start
	specFacts
}

// writeRecord writes a file that is complete or not there, even when this process is killed. It is not flushed to the
// disk, since a container does not outlive the host either.
func writeRecord(dir, name string, v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("record %s: %w", name, err)
	}
	if err := files.Replace(filepath.Join(dir, name), content, 0o600); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// readRecord returns fs.ErrNotExist where there is no record.
func readRecord(dir, name string, v any) error {
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if err := json.Unmarshal(content, v); err != nil {
		return fmt.Errorf("record %s: %w", filepath.Join(dir, name), err)
	}
	return nil
}
