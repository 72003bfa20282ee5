package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/jobd/jobd/api/conns"
	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/people"
	"github.com/jobd/jobd/api/scheme"
	"github.com/jobd/jobd/api/storage"
	"github.com/jobd/jobd/internal/nss"
	"github.com/jobd/jobd/store"
)

// identifyUser makes the user of this machine whose process is at the other end of the socket the user of a request. Anybody may open
// it, so that this says nothing of what they may do: that is up to roles and bindings, and to the namespace that the settings give.
func (s *Server) identifyUser(next http.Handler) http.Handler {
	next = s.authorized(next, s.authorizeUser)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := s.userOf(r.Context())
		if err != nil {
			responsewriters.ErrorNegotiated(err, scheme.Answers, corev1.SchemeGroupVersion, w, r)
			return
		}
		next.ServeHTTP(w, r.WithContext(request.WithUser(r.Context(), who)))
	})
}

// userRoutes adds what the socket of the users of this machine serves beside the API: which images there are.
func (s *Server) userRoutes(api http.Handler) http.Handler {
	names := newImageNamesHandler(s.config.Images)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && isImagePath(r.URL.Path) {
			names.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

// authorizeUser lets whoever may list nodes ask which images there are, too: the status of a Node says no less (NodeStatus.Images) than
// userRoutes answers.
func (s *Server) authorizeUser(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	decision, reason, err := s.access.Authorize(ctx, a)
	switch {
	case err != nil || decision != authorizer.DecisionNoOpinion || a.IsResourceRequest() || !isImagePath(a.GetPath()):
		return decision, reason, err
	case !a.IsReadOnly():
		return decision, "all use the same images, and only an administrator adds and removes them", nil
	}
	nodes := &authorizer.AttributesRecord{User: a.GetUser(), Verb: "list", APIVersion: "v1", Resource: "nodes", ResourceRequest: true}
	if decision, reason, err = s.access.Authorize(ctx, nodes); err != nil || decision == authorizer.DecisionAllow {
		return decision, reason, err
	}
	return decision, "the images are told to whoever may list nodes", nil
}

// userOf returns who has sent a request, after their namespace was made, if the settings give them one.
func (s *Server) userOf(ctx context.Context) (user.Info, error) {
	peer, ok := conns.PeerFrom(ctx)
	if !ok {
		return nil, apierrors.NewUnauthorized("the kernel does not say who is at the other end of the socket")
	}
	person, now, err := s.config.People.Of(ctx, peer.UID)
	var unknown nss.UnknownError
	switch {
	case errors.As(err, &unknown):
		return nil, apierrors.NewUnauthorized(err.Error())
	case err != nil:
		s.config.Logger.Warn("cannot find out who has sent a request", "uid", peer.UID, "error", err)
		return nil, apierrors.NewServiceUnavailable(fmt.Sprintf("this machine does not say who user %d is", peer.UID))
	case !person.HasNamespace():
		return person.Info(""), nil
	}
	namespace, err := s.home(ctx, &person, now)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("the namespace of %s: %w", &person, err))
	}
	return person.Info(namespace), nil
}

// home returns the name of the namespace of a person. If there is none yet it is made, and with refresh set it is made as the machine
// and the settings say.
func (s *Server) home(ctx context.Context, p *people.Person, refresh bool) (name string, err error) {
	if name, err = s.homeAsItIs(p); err != nil || name != "" && !refresh {
		return name, err
	}
	if err := s.config.Store.View(func(sn *store.Snapshot) error {
		lacking, err := lackingAtHome(sn, p)
		if err != nil || len(lacking) > 0 {
			name = ""
		}
		return err
	}); err != nil || name != "" {
		return name, err
	}
	err = s.config.Store.Update(ctx, func(tx *store.Tx) error {
		lacking, err := lackingAtHome(tx.Snapshot, p)
		if err != nil {
			return err
		}
		for _, o := range lacking {
			if o.GetUID() == "" {
				o.SetUID(uuid.NewUUID())
				o.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
			}
			o.SetResourceVersion("")
			if err := put(tx, keyAtHome(o), o); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if name, err = s.homeAsItIs(p); err == nil && name != "" {
		s.config.Logger.Info("a namespace was made as it is to be for a user of this machine", "namespace", name, "user", p.String())
	}
	return name, err
}

func keyAtHome(o object) string {
	if o.GetNamespace() == "" {
		return store.Key("namespaces", "", o.GetName())
	}
	return store.Key(storage.ResourceQuotaResource, o.GetNamespace(), o.GetName())
}

// homeAsItIs returns the name of the namespace that a person has; empty for none.
func (s *Server) homeAsItIs(p *people.Person) (name string, err error) {
	err = s.config.Store.View(func(sn *store.Snapshot) error {
		ns, found, err := namespaceOf(sn, p)
		if found {
			name = ns.Name
		}
		return err
	})
	return name, err
}

// namespaceOf returns the namespace of a person, or the one that is to be theirs: the first name that nobody else's has.
func namespaceOf(sn *store.Snapshot, p *people.Person) (ns *corev1.Namespace, found bool, err error) {
	free := ""
	for _, name := range p.NamespaceNames() {
		o, ok := sn.Get(store.Key("namespaces", "", name))
		if !ok {
			if free == "" {
				free = name
			}
			continue
		}
		ns = &corev1.Namespace{}
		if err := scheme.Decode(o.Value, ns); err != nil {
			return nil, false, err
		}
		if p.Owns(ns) {
			return ns, true, nil
		}
	}
	if free == "" {
		return nil, false, fmt.Errorf("there are namespaces of others with the names %q", p.NamespaceNames())
	}
	ns = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: free}}
	core.PrepareNamespace(ns)
	return ns, false, nil
}

// lackingAtHome returns the objects of a person's namespace that are not there, or not as they are to be.
func lackingAtHome(sn *store.Snapshot, p *people.Person) (lacking []object, err error) {
	ns, _, err := namespaceOf(sn, p)
	if err != nil || ns.DeletionTimestamp != nil {
		return nil, err // what is being deleted stays as it is until it is gone
	}
	if changed, err := p.Furnish(ns); err != nil {
		return nil, err
	} else if changed {
		lacking = append(lacking, ns)
	}
	hard := p.Quota()
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: people.QuotaName}}
	if o, ok := sn.Get(keyAtHome(quota)); ok {
		if err := scheme.Decode(o.Value, quota); err != nil {
			return nil, err
		}
	} else if hard == nil {
		return lacking, nil
	}
	if !equality.Semantic.DeepEqual(quota.Spec.Hard, hard) {
		quota.Spec.Hard = hard
		lacking = append(lacking, quota)
	}
	return lacking, nil
}
