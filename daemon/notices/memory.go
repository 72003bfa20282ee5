package notices

import (
	"encoding/json"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/jobd/jobd/api/batch"
	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/notify"
	"github.com/jobd/jobd/daemon/objects"
	"github.com/jobd/jobd/store"
)

// claimsCronJob reports whether a Job says that a CronJob controls it. Whoever creates a Job may say so of any.
func claimsCronJob(j *batchv1.Job) bool {
	name, _ := batch.CronJobOf(j)
	return name != ""
}

// cronJobOf returns the CronJob that controls a Job; nil if none does. It is one that exists, and has the UID that the Job says.
func cronJobOf(p *loop.Pass, j *batchv1.Job) (*batchv1.CronJob, error) {
	name, uid := batch.CronJobOf(j)
	if name == "" {
		return nil, nil
	}
	cj, ok, err := p.CronJobs.Get(store.Key(objects.CronJobs, j.Namespace, name))
	if err != nil || !ok || cj.UID != uid {
		return nil, err
	}
	return cj, nil
}

// nameOf returns under which name something is remembered of a Job that a CronJob controls, or none (nil), and the UID of that.
func nameOf(j *batchv1.Job, cj *batchv1.CronJob) (name string, owner types.UID) {
	if cj != nil {
		return notify.OfCronJob + cj.Name, cj.UID
	}
	return notify.OfJobs + j.Name, ""
}

// forgetAfter is for how long it is remembered that the last Job of a name has failed, if no other comes.
const forgetAfter = 30 * 24 * 60 * 60 // seconds

// maxRemembered is of how many names of Jobs of a namespace something is remembered.
const maxRemembered = 1000

// putMemory stores what is to be remembered, if that is not what was.
func putMemory(p *loop.Pass, namespace, name string, owner types.UID, was, is notify.Memory) error {
	value, err := json.Marshal(is)
	if err != nil {
		return err
	}
	before, err := json.Marshal(was)
	if err != nil || string(value) == string(before) {
		return err
	}
	key := notify.MemoryKey(namespace, name)
	if is.Empty() {
		p.Delete(key)
		return nil
	}
	o := store.Object{Key: key, UID: string(owner), Value: value}
	if owner == "" && is.Every == 0 {
		o.Expires = p.Now.Unix() + forgetAfter
	}
	p.PutStored(o)
	return nil
}
