package admit

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/jobd/jobd/api/roles"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/store"
)

const (
	// smallNamespace is what a namespace may have in the database however full the disk is.
	smallNamespace = 64 << 20
	// largeNamespace is what it may have at most, however empty the disk is: some million pods.
	largeNamespace = 4 << 30
	// knownFor is how long a measured namespace is taken to be of that size.
	knownFor = 5 * time.Second
)

// DiskRoom keeps those who may write into one namespace from filling the disk with objects: what it has in the database may be half as
// much as what the disk has left, and 4 GiB at most. So there is always something left for others, whose pods nobody has to evict for it, and who can
// write, too. What the control loop creates for what they have written, such as the pods of Jobs, is bounded by Full. Administrators,
// deletions and whatever else the loop writes are not bounded.
type DiskRoom struct {
	Store *store.Store
	// Space returns how much the disk has left beyond what pods would be evicted for, and how large the database is; nil: nobody knows.
	Space func() (left, database int64, err error)

	known sync.Map // of *measured, by the names of namespaces
}

// measured is how large a namespace was.
type measured struct {
	mu   sync.Mutex // held by the one that measures
	size atomic.Int64
	at   atomic.Int64 // in nanoseconds since 1970
}

func (m *measured) isOld(now time.Time) bool { return now.Sub(time.Unix(0, m.at.Load())) >= knownFor }

var _ admission.ValidationInterface = &DiskRoom{}

// Handles implements admission.Interface.
func (*DiskRoom) Handles(op admission.Operation) bool {
	return op == admission.Create || op == admission.Update
}

// Validate implements admission.ValidationInterface.
func (d *DiskRoom) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if d.Space == nil || a.GetNamespace() == "" || roles.Administers(a.GetUserInfo()) || !stores(a) {
		return nil
	}
	left, database, err := d.Space()
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	most := mostOf(left)
	if database <= most { // all namespaces together
		return nil
	}
	size, err := d.size(a.GetNamespace(), most)
	if err != nil || size <= most {
		return err
	}
	return tooLarge(a.GetNamespace(), left, most)
}

// Full returns why the control loop may create nothing more in a namespace; nil if it may. It waits for nobody: what was measured may be a
// few seconds old, and is measured anew beside the loop.
func (d *DiskRoom) Full(namespace string) error {
	left, database, err := d.Space()
	if err != nil { // clients are told
		return nil
	}
	most := mostOf(left)
	if database <= most {
		return nil
	}
	m := d.of(namespace)
	if m.isOld(time.Now()) && m.mu.TryLock() {
		go func() {
			defer m.mu.Unlock()
			_ = d.measure(namespace, most, m) // the next one tries again
		}()
	}
	if m.size.Load() <= most {
		return nil
	}
	return tooLarge(namespace, left, most)
}

func tooLarge(namespace string, left, most int64) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("the disk of jobd has %d MiB left, and the namespace %s has more than %d MiB of objects in the database: "+
			"it can have no more until some of them are deleted", max(left, 0)>>20, namespace, most>>20),
	}}
}

// mostOf is how much a namespace may have when so much is left.
func mostOf(left int64) int64 { return min(max(left/2, smallNamespace), largeNamespace) }

// stores reports whether a request makes the database larger. An object that goes loses its finalizers by updates.
func stores(a admission.Attributes) bool {
	if a.GetOperation() == admission.Create {
		return a.GetSubresource() == ""
	}
	old, err := meta.Accessor(a.GetOldObject())
	return err != nil || old.GetDeletionTimestamp() == nil
}

func (d *DiskRoom) of(namespace string) *measured {
	known, _ := d.known.LoadOrStore(namespace, &measured{})
	return known.(*measured)
}

// size returns how many bytes the objects of a namespace have.
func (d *DiskRoom) size(namespace string, most int64) (int64, error) {
	m := d.of(namespace)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.isOld(time.Now()) {
		return m.size.Load(), nil
	}
	err := d.measure(namespace, most, m)
	return m.size.Load(), err
}

// measure measures a namespace. It looks at no more objects than make more than most.
func (d *DiskRoom) measure(namespace string, most int64, m *measured) error {
	size := int64(0)
	err := d.Store.View(func(s *store.Snapshot) error {
		for _, k := range scheme.Kinds() {
			if !k.Namespaced || size > most {
				continue
			}
			s.Range(store.Key(k.GroupVersion.WithResource(k.Resource).GroupResource().String(), namespace, ""), "", func(o store.Object) bool {
				size += int64(len(o.Key) + len(o.Value))
				return size <= most
			})
		}
		return nil
	})
	if err == nil {
		m.size.Store(size)
		m.at.Store(time.Now().UnixNano())
	}
	return err
}
