package notify

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// The placeholders in the address of a healthcheck.
const (
	namespaceHolder = "{namespace}"
	nameHolder      = "{name}"
)

var placeholder = regexp.MustCompile(`\{[^{}]*\}?|\}`)

// CheckPings checks the address of a healthcheck: that two CronJobs or Jobs whose names it has are never one check, so that nobody
// succeeds in another's place. One without placeholders is one check on purpose, and one with no more than the namespace is one for
// each namespace.
func (r *Receiver) CheckPings(address string) error {
	if err := CheckURL(address); err != nil {
		return err
	}
	plain, err := url.PathUnescape(address)
	if err != nil {
		return fmt.Errorf("url: %w", err)
	}
	if strings.Count(plain, "{") != strings.Count(address, "{") || strings.Count(plain, "}") != strings.Count(address, "}") {
		return errors.New("url: the braces of a placeholder must not be escaped")
	}
	names, namespaces := false, false
	before := []int{0, 0} // where the placeholder before is
	for _, at := range placeholder.FindAllStringIndex(plain, -1) {
		holder := plain[at[0]:at[1]]
		switch holder {
		case nameHolder:
			names = true
		case namespaceHolder:
			namespaces = true
		default:
			return fmt.Errorf("url: %q stands for nothing: there are %s and %s", holder, namespaceHolder, nameHolder)
		}
		if before[1] > 0 && plain[before[0]:before[1]] != holder && !separates(plain[before[1]:at[0]]) {
			return fmt.Errorf("url: %s is ambiguous, since names have hyphens too: separate them by _ or /, as in %s_%s",
				plain[before[0]:at[1]], namespaceHolder, nameHolder)
		}
		before = at
	}
	if names && !namespaces && len(r.Namespaces) != 1 {
		return errors.New("url: needs " + namespaceHolder + " beside " + nameHolder +
			", since other namespaces may have the same names, or a list of namespaces with one")
	}
	return nil
}

// separates reports whether it is always clear where a text between two names begins: a namespace has neither dots nor what names
// cannot have.
func separates(text string) bool {
	return strings.ContainsFunc(text, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}
