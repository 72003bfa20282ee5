// Package limits decides what the LimitRanges of a namespace say of its pods and claims: which requests and limits
// containers get that name none, and what is refused. It is given objects and changes only the pods that it is given.
// The rules and words are those of a cluster's admission plugin LimitRanger.
package limits

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/jobd/jobd/api/core"
)

// annotation of a pod says which requests and limits it was given (LimitRangeItem.Default and DefaultRequest).
const annotation = "kubernetes.io/limit-ranger"

// Fill gives the containers of a pod the requests and limits that they leave out.
func Fill(ranges []*corev1.LimitRange, pod *corev1.Pod) {
	for _, item := range items(ranges, corev1.LimitTypeContainer) {
		var given []string
		for i := range pod.Spec.Containers {
			given = append(given, fill(&pod.Spec.Containers[i], "container", item)...)
		}
		for i := range pod.Spec.InitContainers {
			given = append(given, fill(&pod.Spec.InitContainers[i], "init container", item)...)
		}
		if len(given) == 0 {
			continue
		}
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[annotation] = "LimitRanger plugin set: " + strings.Join(given, "; ")
	}
}

// fill returns what it has set, in the words of the annotation.
func fill(c *corev1.Container, what string, item *corev1.LimitRangeItem) (given []string) {
	say := func(names []string, of string) {
		if len(names) > 0 {
			given = append(given, fmt.Sprintf("%s %s for %s %s", strings.Join(names, ", "), of, what, c.Name))
		}
	}
	say(missing(&c.Resources.Requests, item.DefaultRequest), "request")
	say(missing(&c.Resources.Limits, item.Default), "limit")
	return given
}

// missing adds to a list what it does not name, and returns the names.
func missing(list *corev1.ResourceList, from corev1.ResourceList) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, ok := (*list)[name]; ok {
			continue
		}
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[name] = from[name].DeepCopy()
		names = append(names, string(name))
	}
	return names
}

// maxErrors bounds how many errors are joined, which takes quadratic time.
const maxErrors = 100

// CheckPod returns why LimitRanges refuse a pod, nil if they do not.
func CheckPod(ranges []*corev1.LimitRange, pod *corev1.Pod) error {
	var errs []error
	for _, item := range items(ranges, corev1.LimitTypeContainer) {
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			errs = append(errs, check(item, c.Resources.Requests, c.Resources.Limits)...)
		}
	}
	if whole := items(ranges, corev1.LimitTypePod); len(whole) > 0 {
		options := resourcehelper.PodResourcesOptions{ExcludeOverhead: true}
		requests, limits := resourcehelper.PodRequests(pod, options), resourcehelper.PodLimits(pod, options)
		for _, item := range whole {
			errs = append(errs, check(item, requests, limits)...)
		}
	}
	return utilerrors.NewAggregate(errs[:min(len(errs), maxErrors)])
}

// CheckClaim returns why LimitRanges refuse a claim, nil if they do not.
func CheckClaim(ranges []*corev1.LimitRange, pvc *corev1.PersistentVolumeClaim) error {
	var errs []error
	for _, item := range items(ranges, corev1.LimitTypePersistentVolumeClaim) {
		l := limited{of: item.Type, requests: pvc.Spec.Resources.Requests}
		for _, name := range slices.Sorted(maps.Keys(item.Min)) {
			errs = append(errs, l.atLeast(name, item.Min[name]))
		}
		for _, name := range slices.Sorted(maps.Keys(item.Max)) {
			errs = append(errs, l.asksAtMost(name, item.Max[name]))
		}
	}
	return utilerrors.NewAggregate(slices.DeleteFunc(errs, func(err error) bool { return err == nil }))
}

func items(ranges []*corev1.LimitRange, of corev1.LimitType) (found []*corev1.LimitRangeItem) {
	for _, r := range ranges {
		for i := range r.Spec.Limits {
			if r.Spec.Limits[i].Type == of {
				found = append(found, &r.Spec.Limits[i])
			}
		}
	}
	return found
}

func check(item *corev1.LimitRangeItem, requests, limits corev1.ResourceList) (errs []error) {
	l := limited{item.Type, requests, limits}
	for _, name := range slices.Sorted(maps.Keys(item.Min)) {
		errs = append(errs, l.atLeast(name, item.Min[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(item.Max)) {
		errs = append(errs, l.atMost(name, item.Max[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(item.MaxLimitRequestRatio)) {
		errs = append(errs, l.inProportion(name, item.MaxLimitRequestRatio[name]))
	}
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

// limited is what a container, a whole pod or a claim asks for.
type limited struct {
	of               corev1.LimitType
	requests, limits corev1.ResourceList
}

func (l limited) atLeast(name corev1.ResourceName, least resource.Quantity) error {
	const words = "minimum %s usage per %s is %s"
	request, requested := l.requests[name]
	limit, isLimited := l.limits[name]
	switch {
	case !requested:
		return fmt.Errorf(words+".  No request is specified", name, l.of, least.String())
	case request.Cmp(least) < 0:
		return fmt.Errorf(words+", but request is %s", name, l.of, least.String(), request.String())
	case isLimited && limit.Cmp(least) < 0:
		return fmt.Errorf(words+", but limit is %s", name, l.of, least.String(), limit.String())
	}
	return nil
}

const atMost = "maximum %s usage per %s is %s"

func (l limited) atMost(name corev1.ResourceName, most resource.Quantity) error {
	request := l.requests[name]
	limit, isLimited := l.limits[name]
	switch {
	case !isLimited:
		return fmt.Errorf(atMost+".  No limit is specified", name, l.of, most.String())
	case limit.Cmp(most) > 0:
		return fmt.Errorf(atMost+", but limit is %s", name, l.of, most.String(), limit.String())
	case request.Cmp(most) > 0:
		return fmt.Errorf(atMost+", but request is %s", name, l.of, most.String(), request.String())
	}
	return nil
}

// asksAtMost is atMost for what has no limits.
func (l limited) asksAtMost(name corev1.ResourceName, most resource.Quantity) error {
	request, requested := l.requests[name]
	switch {
	case !requested:
		return fmt.Errorf(atMost+".  No request is specified", name, l.of, most.String())
	case request.Cmp(most) > 0:
		return fmt.Errorf(atMost+", but request is %s", name, l.of, most.String(), request.String())
	}
	return nil
}

func (l limited) inProportion(name corev1.ResourceName, highest resource.Quantity) error {
	const words = "%s max limit to request ratio per %s is %s, but "
	request, limit := l.requests[name], l.limits[name]
	switch {
	case request.IsZero():
		return fmt.Errorf(words+"no request is specified or request is 0", name, l.of, highest.String())
	case limit.IsZero():
		return fmt.Errorf(words+"no limit is specified or limit is 0", name, l.of, highest.String())
	case core.CompareRatio(limit, request, highest) > 0:
		return fmt.Errorf(words+"provided ratio is %f", name, l.of, highest.String(), core.Ratio(limit, request))
	}
	return nil
}
