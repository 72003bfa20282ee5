// Package creation has the rules that each new object meets, whoever creates it: those that fill it in, and those that refuse
// it. What clients create api/admit takes through them, what the control loop creates daemon/door.
//
// A request comes in with what there is (Source); the object is filled in, or a refusal goes out in the words of a cluster.
// Nothing is written. A rule that also holds for updates is called for these by its plugin in api/admit.
package creation

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/admission"

	"github.com/jobd/jobd/api/clusters"
	"github.com/jobd/jobd/api/podsecurity"
	"github.com/jobd/jobd/api/storage"
)

// Request is an object that somebody wants to create in a namespace.
type Request struct {
	admission.Attributes
	From Source
	// Called is what the object is called in a refusal, where that is not its name.
	Called string
	// OverQuota is set if ResourceQuotas refuse the object: they may allow it later.
	OverQuota bool
}

// forbidden returns a refusal.
func (r *Request) forbidden(reason error) error {
	if r.Called != "" {
		return apierrors.NewForbidden(r.GetResource().GroupResource(), r.Called, reason)
	}
	return admission.NewForbidden(r.Attributes, reason)
}

// Source reads what rules decide by. Its errors are those of reading.
type Source interface {
	// Namespace returns a namespace, false if there is none.
	Namespace(name string) (*corev1.Namespace, bool, error)
	LimitRanges(namespace string) ([]*corev1.LimitRange, error)
	// References calls fn with what pods may name.
	References(fn func(*storage.PodReferences)) error
	// Quotas returns the ResourceQuotas of a namespace. The rule sets it to what is used with the new object.
	Quotas(namespace string) (*[]corev1.ResourceQuota, error)
}

// Rule is one rule. Fill is called before the object is prepared and validated, Check afterwards; either may be nil. A refusal
// is for whoever creates the object, err says that it could not be found out.
type Rule struct {
	Fill  func(r *Request) (refusal, err error)
	Check func(ctx context.Context, r *Request) (refusal, err error)
}

// First is what is asked before all else: whether there is the namespace.
func First() []Rule { return []Rule{{Check: checkNamespace}} }

// Rules returns the other rules, in their order. A nil policy takes any pod. hostRoot says that root may run commands of the host.
func Rules(policy *podsecurity.Policy, hostRoot bool) []Rule {
	return []Rule{
		ofOurs(Rule{Fill: fillHostImage, Check: func(_ context.Context, r *Request) (refusal, err error) { return CheckHostImage(r, hostRoot) }}),
		ofOurs(Rule{Fill: fillRunAs, Check: checkRunAs}),
		ofOurs(Rule{Check: checkQueue}),
		ofOurs(Rule{Fill: fillFromLimitRanges, Check: CheckLimitRanges}),
		ofOurs(Rule{Fill: resolveReferences}),
		ofOurs(Rule{Check: func(ctx context.Context, r *Request) (refusal, err error) { return CheckPodSecurity(ctx, r, policy) }}),
		{Check: CheckQuotas},
	}
}

// ofOurs leaves pods out that show one of a cluster: nothing of them runs here.
func ofOurs(rule Rule) Rule {
	shown := func(r *Request) bool {
		p, ok := r.GetObject().(*corev1.Pod)
		return ok && clusters.Shown(p)
	}
	of := Rule{}
	if rule.Fill != nil {
		of.Fill = func(r *Request) (refusal, err error) {
			if shown(r) {
				return nil, nil
			}
			return rule.Fill(r)
		}
	}
	if rule.Check != nil {
		of.Check = func(ctx context.Context, r *Request) (refusal, err error) {
			if shown(r) {
				return nil, nil
			}
			return rule.Check(ctx, r)
		}
	}
	return of
}

// Fill has rules fill in an object, up to the first that refuses it.
func Fill(rules []Rule, r *Request) (refusal, err error) {
	for _, rule := range rules {
		if rule.Fill == nil {
			continue
		}
		if refusal, err = rule.Fill(r); refusal != nil || err != nil {
			return refusal, err
		}
	}
	return nil, nil
}

// Check asks rules about an object, up to the first that refuses it.
func Check(ctx context.Context, rules []Rule, r *Request) (refusal, err error) {
	for _, rule := range rules {
		if rule.Check == nil {
			continue
		}
		if refusal, err = rule.Check(ctx, r); refusal != nil || err != nil {
			return refusal, err
		}
	}
	return nil, nil
}
