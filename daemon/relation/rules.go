package relation

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
)

const (
	// MaxRules is how many different rules there may be. A pod that waits is compared with each of them.
	MaxRules = 2000
	// MaxOwnRules is how many of them one namespace may bring, so that there is room for those of others.
	MaxOwnRules = 500
)

// Rule is what relations that are alike have in common: which pods they count.
type Rule struct {
	*Relation
	ID     int    // counts the rules in the order in which they came, from 1
	users  int    // relations of known pods
	labels bool   // it depends on the labels of namespaces
	index  bool   // it selects by the label that differs among the pods of a Job
	steps  int    // to match a pod
	by     string // the namespace that has brought it
}

// Rules are what the known pods ask of others, by what they select. NewRules makes them.
type Rules struct {
	byKey      map[string]*Rule
	byID       map[int]*Rule
	ordered    []*Rule // in the order in which they came
	last       int
	count      map[string]int               // by the namespaces that have brought them
	namespaces map[string]map[string]string // their labels
}

// NewRules returns no rules.
func NewRules() *Rules {
	return &Rules{byKey: map[string]*Rule{}, byID: map[int]*Rule{}, count: map[string]int{}, namespaces: map[string]map[string]string{}}
}

// Len returns how many rules there are.
func (r *Rules) Len() int { return len(r.ordered) }

// Last returns the ID of the newest rule that there ever was.
func (r *Rules) Last() int { return r.last }

// Get returns the rule of an ID; nil if nobody needs it any more.
func (r *Rules) Get(id int) *Rule { return r.byID[id] }

// IDOf returns the ID of the rule of a relation that is registered.
func (r *Rules) IDOf(of *Relation) int { return r.byKey[of.Rule].ID }

// After returns the rules that came after that of an ID, in their order; all after 0.
func (r *Rules) After(id int) []*Rule {
	at, _ := slices.BinarySearchFunc(r.ordered, id+1, func(r *Rule, id int) int { return r.ID - id })
	return r.ordered[at:]
}

// HasRoom reports whether there are few enough rules for what a pod of a namespace asks of others.
func (r *Rules) HasRoom(relations []*Relation, namespace string) bool {
	unknown := map[string]bool{}
	for _, of := range relations {
		if r.byKey[of.Rule] == nil {
			unknown[of.Rule] = true
		}
	}
	more := len(unknown)
	return more == 0 || len(r.byKey)+more <= MaxRules && r.count[namespace]+more <= MaxOwnRules
}

// Register makes known what a pod of a namespace asks of others, and returns the rules that are new.
func (r *Rules) Register(relations []*Relation, namespace string) (made []*Rule) {
	for _, of := range relations {
		known := r.byKey[of.Rule]
		if known == nil {
			known = r.add(of, namespace)
			made = append(made, known)
		}
		known.users++
	}
	return made
}

func (r *Rules) add(of *Relation, by string) *Rule {
	r.last++
	made := &Rule{Relation: of, ID: r.last, labels: of.ByNamespace(), index: of.ByIndex(), steps: of.Steps(), by: by}
	r.count[by]++
	r.byKey[of.Rule], r.byID[made.ID] = made, made
	r.ordered = append(r.ordered, made)
	return made
}

// Unregister forgets what a pod asked of others, and reports whether there are fewer rules now.
func (r *Rules) Unregister(relations []*Relation) (fewer bool) {
	for _, of := range relations {
		known := r.byKey[of.Rule]
		if known == nil {
			continue
		}
		if known.users--; known.users > 0 {
			continue
		}
		delete(r.byKey, of.Rule)
		delete(r.byID, known.ID)
		r.ordered = slices.DeleteFunc(r.ordered, func(r *Rule) bool { return r == known })
		if r.count[known.by]--; r.count[known.by] == 0 {
			delete(r.count, known.by)
		}
		fewer = true
	}
	return fewer
}

// SetNamespace takes in the labels of a namespace, nil if it is gone, and reports whether what its pods match may have changed.
func (r *Rules) SetNamespace(name string, set map[string]string) bool {
	if maps.Equal(r.namespaces[name], set) {
		return false
	}
	if set == nil {
		delete(r.namespaces, name)
	} else {
		r.namespaces[name] = set
	}
	return slices.ContainsFunc(r.ordered, func(r *Rule) bool { return r.labels })
}

// ByIndex reports whether one of the rules depends on the label that differs among the pods of a Job.
func ByIndex(rules []*Rule) bool {
	return slices.ContainsFunc(rules, func(r *Rule) bool { return r.index })
}

// Matcher returns a function that returns the IDs of those of the rules that count a pod, in their order, and how many steps it took to
// find them. It looks once at pods that have the same labels, as those of a Job have but for their indexes.
func (r *Rules) Matcher(rules []*Rule) func(Labels) (ids []int, steps int) {
	indexed := ByIndex(rules)
	seen := map[Labels][]int{}
	return func(like Labels) (ids []int, steps int) {
		own, in := like, like.Namespace()
		if !indexed {
			like = like.WithoutIndex()
		}
		ids, ok := seen[like]
		if ok {
			return ids, 0
		}
		set := own.Set()
		for _, rule := range rules {
			steps += rule.steps
			if rule.Counts(set, in, labels.Set(r.namespaces[in])) {
				ids = append(ids, rule.ID)
			}
		}
		seen[like] = ids
		return ids, steps
	}
}
