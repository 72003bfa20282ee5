package store

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// allocate asks the file system to reserve the space of a file up to an offset, and leaves its size as it is.
func allocate(path string, upTo int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, upTo); err != nil {
		return fmt.Errorf("fallocate: %w", err)
	}
	return nil
}
