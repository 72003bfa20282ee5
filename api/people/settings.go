package people

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/jobd/jobd/api/core"
	"github.com/jobd/jobd/api/hostpath"
	"github.com/jobd/jobd/internal/quantity"
)

// Settings say who of this machine has a namespace. The first that is meant for somebody counts.
type Settings []Setting

// Setting is for one user, or for all members of a group.
type Setting struct {
	User  string `json:"user,omitempty"`
	Group string `json:"group,omitempty"`
	// HostPaths are what pods may mount beside the home, as the annotation of the namespace has them.
	HostPaths []string `json:"host-paths,omitempty"`
	// Quota is what the namespace has at most, as in a ResourceQuota. Without it the defaults hold, and an empty one is none.
	Quota map[string]string `json:"quota,omitempty"`
}

// defaultQuota keeps somebody who makes a mistake, such as a loop that submits, from filling the machine for all others.
var defaultQuota = map[string]string{
	"pods": "500", "count/jobs.batch": "5000", "count/cronjobs.batch": "100", "count/jobsets.jobset.x-k8s.io": "100", "services": "50",
	"persistentvolumeclaims": "50", "requests.storage": "500Gi",
}

// groupSign marks a group in the text of a flag.
const groupSign = "@"

// Set takes users, and groups that begin with an @, separated by commas. It implements pflag.Value.
func (s *Settings) Set(value string) error {
	*s = nil
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if group, ok := strings.CutPrefix(name, groupSign); ok {
			*s = append(*s, Setting{Group: group})
		} else {
			*s = append(*s, Setting{User: name})
		}
	}
	return s.Check()
}

// String implements pflag.Value.
func (s *Settings) String() string {
	var names []string
	for _, of := range *s {
		names = append(names, of.who())
	}
	return strings.Join(names, ",")
}

// Type implements pflag.Value.
func (s *Settings) Type() string { return "name,@group" }

func (s *Setting) who() string {
	if s.Group != "" {
		return groupSign + s.Group
	}
	return s.User
}

// Check says what is wrong with the settings.
func (s Settings) Check() error {
	for i := range s {
		if err := s[i].check(); err != nil {
			return fmt.Errorf("entry %d: %w", i+1, err)
		}
	}
	return nil
}

func (s *Setting) check() error {
	if (s.User == "") == (s.Group == "") {
		return errors.New("must have either user or group")
	}
	if _, err := s.hostPaths(""); err != nil {
		return fmt.Errorf("%s: host-paths: %w", s.who(), err)
	}
	hard, err := s.quota()
	if err != nil {
		return fmt.Errorf("%s: quota: %w", s.who(), err)
	}
	if errs := core.ValidateQuota(hard, nil); len(errs) > 0 {
		return fmt.Errorf("%s: quota: %w", s.who(), errs[0])
	}
	return nil
}

// hostPaths returns the list of paths, with a home if it is not empty, as the annotation of a namespace has it.
func (s *Setting) hostPaths(home string) (string, error) {
	var all []string
	if home != "" {
		all = append(all, home)
	}
	list := strings.Join(append(all, s.HostPaths...), ",")
	ns := &corev1.Namespace{}
	ns.Annotations = map[string]string{hostpath.Annotation: list}
	_, err := hostpath.Of(ns)
	return list, err
}

// quota returns what the namespace has at most; nil for no limits.
func (s *Setting) quota() (corev1.ResourceList, error) {
	amounts := s.Quota
	if amounts == nil {
		amounts = defaultQuota
	}
	var hard corev1.ResourceList
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		q, err := quantity.Parse(amounts[name])
		if err != nil || q.Sign() < 0 {
			return nil, fmt.Errorf("%s: %q is no amount", name, amounts[name])
		}
		if hard == nil {
			hard = corev1.ResourceList{}
		}
		hard[corev1.ResourceName(name)] = q
	}
	return hard, nil
}
