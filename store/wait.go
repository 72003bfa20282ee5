package store

import "context"

// Wait returns when a change after that version is durable. It fails with the error of ctx, and with ErrClosed.
func (s *Store) Wait(ctx context.Context, version uint64) error {
	// Again, since readers of the file see a commit a moment before those that wait for it are woken.
	for s.Version() <= version {
		if err := s.waiting.wait(ctx, s.Cursor(version, "")); err != nil {
			return err
		}
	}
	return nil
}
