package creation

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"

	"github.com/jobd/jobd/api/storage"
)

// there is what there is.
type there struct {
	ns     *corev1.Namespace
	ranges []*corev1.LimitRange
	quotas []corev1.ResourceQuota
}

func (t *there) Namespace(string) (*corev1.Namespace, bool, error) { return t.ns, t.ns != nil, nil }
func (t *there) LimitRanges(string) ([]*corev1.LimitRange, error)  { return t.ranges, nil }
func (t *there) References(func(*storage.PodReferences)) error     { return nil }
func (t *there) Quotas(string) (*[]corev1.ResourceQuota, error)    { return &t.quotas, nil }

func TestNewPodsMeetTheRules(t *testing.T) {
	cpu := func(n string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(n)}
	}
	onePod := corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"}}
	onePod.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}
	onePod.Status.Hard, onePod.Status.Used = onePod.Spec.Hard, corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
	ending := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", DeletionTimestamp: &metav1.Time{}}}
	limited := []*corev1.LimitRange{{Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, DefaultRequest: cpu("1"), Max: cpu("2"), Default: cpu("3"),
	}}}}}
	for rule, c := range map[string]struct {
		there   there
		refused [2]string // words of the refusals of two pods, one after the other
		quota   [2]bool   // whether it may be allowed later
	}{
		"no namespace":              {there{}, [2]string{`namespaces "team" not found`, `namespaces "team" not found`}, [2]bool{}},
		"one that is being deleted": {there{ns: ending}, [2]string{"being terminated", "being terminated"}, [2]bool{}},
		"what LimitRanges give is more than they allow": {
			there{ns: &corev1.Namespace{}, ranges: limited},
			[2]string{`pods "j-" is forbidden: maximum cpu usage per Container is 2`, `pods "j-" is forbidden`}, [2]bool{},
		},
		"the second is more than the quota": {
			there{ns: &corev1.Namespace{}, quotas: []corev1.ResourceQuota{onePod}},
			[2]string{"", `pods "j-2" is forbidden: exceeded quota: few`}, [2]bool{false, true},
		},
		"nothing is in the way": {there{ns: &corev1.Namespace{}}, [2]string{}, [2]bool{}},
	} {
		t.Run(rule, func(t *testing.T) {
			for i, name := range [2]string{"j-1", "j-2"} {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name, GenerateName: "j-"}}
				pod.Spec.Containers = []corev1.Container{{Name: "c"}}
				r := &Request{
					Attributes: admission.NewAttributesRecord(pod, nil, corev1.SchemeGroupVersion.WithKind("Pod"), "team", name,
						corev1.SchemeGroupVersion.WithResource("pods"), "", admission.Create, nil, false, nil),
					From: &c.there, Called: pod.GenerateName,
				}
				all := append(First(), Rules(nil, false)...)
				refusal, err := Fill(all, r)
				if err == nil && refusal == nil {
					refusal, err = Check(t.Context(), all, r)
				}
				said := ""
				if refusal != nil {
					said = refusal.Error()
				}
				if err != nil || (said == "") != (c.refused[i] == "") || !strings.Contains(said, c.refused[i]) || r.OverQuota != c.quota[i] {
					t.Errorf("%s: refused with %q (over quota: %t), %v; want %q", name, said, r.OverQuota, err, c.refused[i])
				}
			}
		})
	}
}
