package manifests

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jobd/jobd/store"
)

// records is the resource under which it is stored what was applied. No client sees it.
const records = "manifests.jobd.dev"

func (r Ref) key() string {
	return store.Key(records, "", fmt.Sprintf("%s.%s~%s~%s", r.Kind, r.Group, r.Namespace, r.Name))
}

// recall reads all records.
func recall(s *store.Store) (all []Record, err error) {
	err = s.View(func(s *store.Snapshot) (err error) {
		s.Range(records+"/", "", func(o store.Object) bool {
			r := Record{}
			if err = json.Unmarshal(o.Value, &r); err != nil {
				err = fmt.Errorf("%s: %w", o.Key, err)
				return false
			}
			all = append(all, r)
			return true
		})
		return err
	})
	return all, err
}

func note(ctx context.Context, s *store.Store, r Record) error {
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return s.Update(ctx, func(tx *store.Tx) error {
		tx.Put(store.Object{Key: r.key(), Value: value})
		return nil
	})
}

func forget(ctx context.Context, s *store.Store, r Ref) error {
	return s.Update(ctx, func(tx *store.Tx) error {
		tx.Delete(r.key())
		return nil
	})
}
