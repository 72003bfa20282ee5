package jobsets

import (
	jobsetv1 "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/jobd/jobd/daemon/loop"
	"github.com/jobd/jobd/daemon/objects"
)

// mostDecoded is how many bytes of stored JobSets are kept decoded.
const mostDecoded = 4 << 20

// decoded are the JobSets that were decided on last. So one that changes step after step is decoded once.
type decoded struct {
	sets  map[string]stored // by key
	bytes int
}

// stored is a JobSet as it is stored.
type stored struct {
	set     *jobsetv1.JobSet
	version uint64
	size    int
}

// read returns a JobSet as the pass has left it; nil if there is none. Whoever changes it writes it by put.
func (d *decoded) read(p *loop.Pass, key string) (*jobsetv1.JobSet, error) {
	o, ok := p.Get(key)
	if !ok {
		d.drop(key)
		return nil, nil
	}
	if kept, ok := d.sets[key]; ok && kept.version == o.Version {
		return kept.set, nil
	}
	js := &jobsetv1.JobSet{}
	if err := objects.Decode(o, js); err != nil {
		return nil, err
	}
	d.keep(key, stored{js, o.Version, len(o.Value)})
	return js, nil
}

// put writes a JobSet that was read.
func (d *decoded) put(p *loop.Pass, key string, js *jobsetv1.JobSet) error {
	return d.write(p, key, js, p.Put)
}

// putStatus writes a JobSet that was read, and of which nothing but the metadata and the status was changed: of many groups the spec is far
// larger.
func (d *decoded) putStatus(p *loop.Pass, key string, js *jobsetv1.JobSet) error {
	return d.write(p, key, js, p.PutStatus)
}

func (d *decoded) write(p *loop.Pass, key string, js *jobsetv1.JobSet, put func(string, objects.Object) error) error {
	if err := put(key, js); err != nil {
		return err
	}
	d.keep(key, stored{js, p.Version(), p.Size(key)})
	return nil
}

func (d *decoded) keep(key string, s stored) {
	d.drop(key)
	if d.bytes+s.size > mostDecoded {
		clear(d.sets)
		d.bytes = 0
	}
	d.sets[key] = s
	d.bytes += s.size
}

func (d *decoded) drop(key string) {
	d.bytes -= d.sets[key].size
	delete(d.sets, key)
}
