package core

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/jobd/jobd/api/kind"
)

// setLimitRangeDefaults fills in what containers get that say nothing (LimitRangeItem.Default, DefaultRequest): at most
// what they may have, and at least what they must.
func setLimitRangeDefaults(lr *corev1.LimitRange) {
	for i := range lr.Spec.Limits {
		item := &lr.Spec.Limits[i]
		for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
			roundResources(list)
		}
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		fill(&item.Default, item.Max)
		fill(&item.DefaultRequest, item.Default)
		fill(&item.DefaultRequest, item.Min)
	}
}

// fill adds to a list what it does not name.
func fill(list *corev1.ResourceList, from corev1.ResourceList) {
	for name, amount := range from {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = amount.DeepCopy()
	}
}

var limitTypes = []corev1.LimitType{corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim}

// validateLimitRange checks a LimitRange (LimitRangeSpec). Its types beyond those of Kubernetes are kept and limit
// nothing, as in a cluster.
func validateLimitRange(lr *corev1.LimitRange) field.ErrorList {
	errs := validation.ValidateObjectMeta(&lr.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	seen := map[corev1.LimitType]bool{}
	for i := range lr.Spec.Limits {
		item, path := &lr.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		of := path.Child("type")
		errs = append(errs, invalid(of, item.Type, utilvalidation.IsQualifiedName(string(item.Type)))...)
		if !strings.Contains(string(item.Type), "/") && !slices.Contains(limitTypes, item.Type) {
			errs = append(errs, field.Invalid(of, item.Type, "must be a standard limit type or fully qualified"))
		}
		if seen[item.Type] {
			errs = append(errs, field.Duplicate(of, item.Type))
		}
		seen[item.Type] = true
		errs = append(errs, validateLimitRangeItem(item, path)...)
	}
	return errs
}

func validateLimitRangeUpdate(lr, old *corev1.LimitRange) field.ErrorList {
	return append(validation.ValidateObjectMetaUpdate(&lr.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")),
		validateLimitRange(lr)...)
}

func validateLimitRangeItem(item *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[corev1.ResourceName]bool{}
	amounts := func(list corev1.ResourceList, where string, negative bool) {
		for _, name := range sortedKeys(list) {
			amount, at := list[name], path.Child(where).Key(string(name))
			names[name] = true
			errs = append(errs, validateLimitedResource(item.Type, name, at)...)
			if negative && amount.Sign() < 0 {
				errs = append(errs, field.Invalid(at, amount.String(), "must be greater than or equal to 0"))
			}
		}
	}
	amounts(item.Max, "max", true)
	amounts(item.Min, "min", true)
	if item.Type == corev1.LimitTypePod {
		const why = "may not be specified when `type` is 'Pod'"
		if len(item.Default) > 0 {
			errs = append(errs, field.Forbidden(path.Child("default"), why))
		}
		if len(item.DefaultRequest) > 0 {
			errs = append(errs, field.Forbidden(path.Child("defaultRequest"), why))
		}
	} else {
		amounts(item.Default, "default", false)
		amounts(item.DefaultRequest, "defaultRequest", false)
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := item.Min[corev1.ResourceStorage]
		_, most := item.Max[corev1.ResourceStorage]
		if !least && !most {
			errs = append(errs, field.Required(path.Child("limits"),
				"either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	amounts(item.MaxLimitRequestRatio, "maxLimitRequestRatio", false)
	for _, name := range sortedKeys(names) {
		errs = append(errs, validateLimitedAmounts(item, name, path)...)
	}
	return errs
}

// validateLimitedResource checks the name of a resource that a LimitRange limits.
func validateLimitedResource(of corev1.LimitType, name corev1.ResourceName, path *field.Path) field.ErrorList {
	if of == corev1.LimitTypePod || of == corev1.LimitTypeContainer {
		return validateResourceName(name, path)
	}
	errs := invalid(path, string(name), utilvalidation.IsQualifiedName(string(name)))
	if len(errs) == 0 && !strings.Contains(string(name), "/") && !isStandardResource(name) {
		errs = append(errs, field.Invalid(path, string(name), "must be a standard resource type or fully qualified"))
	}
	return errs
}

// validateLimitedAmounts compares what a LimitRange says of one resource: min <= defaultRequest <= default <= max.
func validateLimitedAmounts(item *corev1.LimitRangeItem, name corev1.ResourceName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	least, hasLeast := item.Min[name]
	most, hasMost := item.Max[name]
	usual, hasUsual := item.Default[name]
	asked, hasAsked := item.DefaultRequest[name]
	ratio, hasRatio := item.MaxLimitRequestRatio[name]
	refuse := func(where string, value resource.Quantity, format string, args ...any) {
		errs = append(errs, field.Invalid(path.Child(where).Key(string(name)), value, fmt.Sprintf(format, args...)))
	}
	if hasLeast && hasMost && least.Cmp(most) > 0 {
		refuse("min", least, "min value %s is greater than max value %s", least.String(), most.String())
	}
	if hasAsked && hasLeast && least.Cmp(asked) > 0 {
		refuse("defaultRequest", asked, "min value %s is greater than default request value %s", least.String(), asked.String())
	}
	if hasAsked && hasMost && asked.Cmp(most) > 0 {
		refuse("defaultRequest", asked, "default request value %s is greater than max value %s", asked.String(), most.String())
	}
	if hasAsked && hasUsual && asked.Cmp(usual) > 0 {
		refuse("defaultRequest", asked, "default request value %s is greater than default limit value %s", asked.String(), usual.String())
	}
	if hasUsual && hasLeast && least.Cmp(usual) > 0 {
		refuse("default", least, "min value %s is greater than default value %s", least.String(), usual.String())
	}
	if hasUsual && hasMost && usual.Cmp(most) > 0 {
		refuse("default", most, "default value %s is greater than max value %s", usual.String(), most.String())
	}
	if hasRatio && ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		refuse("maxLimitRequestRatio", ratio, "ratio %s is less than 1", ratio.String())
	}
	if hasRatio && hasLeast && hasMost {
		if CompareRatio(most, least, ratio) < 0 {
			refuse("maxLimitRequestRatio", ratio, "ratio %s is greater than max/min = %f", ratio.String(), Ratio(most, least))
		}
	}
	if overcommits := isNative(name) && !isHugePages(name); !overcommits && hasUsual && hasAsked && usual.Cmp(asked) != 0 {
		refuse("defaultRequest", asked, "default value %s must equal to defaultRequest value %s in %s", usual.String(), asked.String(), name)
	}
	return errs
}

// CompareRatio returns -1, 0 or 1 if the ratio of one amount to another is less than, equal to or greater than a third. It
// is exact, which Ratio is not: 300m is more than 2.9 and a bit times 100m.
func CompareRatio(a, b, ratio resource.Quantity) int {
	if b.Sign() == 0 {
		return 1
	}
	product := b.DeepCopy()
	return a.AsDec().Cmp(product.AsDec().Mul(product.AsDec(), ratio.AsDec()))
}

// Ratio returns about how many times as large one amount is as another, infinity if that one is 0.
func Ratio(a, b resource.Quantity) float64 {
	if b.Sign() == 0 {
		return math.Inf(1)
	}
	return a.AsApproximateFloat64() / b.AsApproximateFloat64()
}

// limitRangeTable is what kubectl prints of LimitRanges.
func limitRangeTable() kind.Columns[*corev1.LimitRange] {
	return kind.Columns[*corev1.LimitRange]{kind.NameColumn[*corev1.LimitRange](), kind.CreatedColumn[*corev1.LimitRange]()}
}
