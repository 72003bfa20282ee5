package control

import (
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/jobd/jobd/daemon/job"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

func memoryKey(j *batchv1.Job) string { return objects.Key(objects.Memories, j) }

// readMemory returns what was stored for a Job about pods that may be gone; nil if nothing was.
func readMemory(s *store.Snapshot, j *batchv1.Job) (*job.Memory, error) {
	o, ok := s.Get(memoryKey(j))
	if !ok || o.UID != string(j.UID) {
		return nil, nil
	}
	m := &job.Memory{}
	if err := json.Unmarshal(o.Value, m); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Key, err)
	}
	return m, nil
}

// putMemory stores what must be remembered about pods of a Job that are gone.
func putMemory(p *loop.Pass, j *batchv1.Job, m *job.Memory) error {
	value, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", memoryKey(j), err)
	}
	p.PutStored(store.Object{Key: memoryKey(j), UID: string(j.UID), Value: value})
	return nil
}
