package core

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The limits of a resolver (resolv.conf(5)), as clusters enforce them.
const (
	maxNameservers  = 3
	maxSearchPaths  = 32
	maxSearchLength = 2048
)

func validateDNS(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	errs := requiredOneOf(path.Child("dnsPolicy"), spec.DNSPolicy,
		[]corev1.DNSPolicy{
			corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone,
		})
	c, at := spec.DNSConfig, path.Child("dnsConfig")
	if spec.DNSPolicy == corev1.DNSNone {
		if c == nil {
			return append(errs, field.Required(at, "must provide `dnsConfig` when `dnsPolicy` is None"))
		}
		if len(c.Nameservers) == 0 {
			return append(errs, field.Required(at.Child("nameservers"),
				"must provide at least one DNS nameserver when `dnsPolicy` is None"))
		}
	}
	if c == nil {
		return errs
	}
	if len(c.Nameservers) > maxNameservers {
		errs = append(errs, field.Invalid(at.Child("nameservers"), c.Nameservers,
			"must not have more than 3 nameservers"))
	}
	for i, server := range c.Nameservers {
		errs = append(errs, utilvalidation.IsValidIP(at.Child("nameservers").Index(i), server)...)
	}
	if len(c.Searches) > maxSearchPaths {
		errs = append(errs, field.Invalid(at.Child("searches"), c.Searches, "must not have more than 32 search paths"))
	}
	if len(strings.Join(c.Searches, " ")) > maxSearchLength {
		errs = append(errs, field.Invalid(at.Child("searches"), c.Searches,
			"must not have more than 2048 characters (including spaces) in the search list"))
	}
	for i, search := range c.Searches {
		if search != "." {
			errs = append(errs, invalid(at.Child("searches").Index(i), search,
				utilvalidation.IsDNS1123SubdomainWithUnderscore(strings.TrimSuffix(search, ".")))...)
		}
	}
	for i, option := range c.Options {
		if option.Name == "" {
			errs = append(errs, field.Required(at.Child("options").Index(i), "must not be empty"))
		}
	}
	return errs
}

func validateHostAliases(aliases []corev1.HostAlias, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, alias := range aliases {
		errs = append(errs, utilvalidation.IsValidIP(path.Index(i).Child("ip"), alias.IP)...)
		for j, name := range alias.Hostnames {
			errs = append(errs, invalid(path.Index(i).Child("hostnames").Index(j), name,
				utilvalidation.IsDNS1123Subdomain(name))...)
		}
	}
	return errs
}
