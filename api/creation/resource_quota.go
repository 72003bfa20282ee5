package creation

import (
	"context"

	"github.com/jobd/jobd/api/quota"
)

// CheckQuotas refuses an object that would use more than the ResourceQuotas of its namespace allow.
func CheckQuotas(_ context.Context, r *Request) (refusal, err error) {
	if r.GetNamespace() == "" || r.GetObject() == nil {
		return nil, nil
	}
	quotas, err := r.From.Quotas(r.GetNamespace())
	if err != nil || len(*quotas) == 0 {
		return nil, err
	}
	used, refusal := quota.Check(*quotas, r.Attributes)
	if r.OverQuota = refusal != nil; !r.OverQuota {
		*quotas = used
	}
	return refusal, nil
}
