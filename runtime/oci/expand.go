package oci

import "strings"

// expand replaces $(NAME) by what lookup returns for that name. Unknown names stay as they are written, and $$ stands
// for one $, so that $$(NAME) is never replaced. Replaced text is not expanded again.
func expand(s string, lookup func(string) (string, bool)) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var b strings.Builder
	eachPart(s, lookup, func(part string) { b.WriteString(part) })
	return b.String()
}

// eachPart returns the parts that expand puts together.
func eachPart(s string, lookup func(string) (string, bool), part func(string)) {
	// Without it, each of many "$(" that nothing closes would search all that follows.
	closing := strings.Count(s, ")")
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			part(s)
			return
		}
		closing -= strings.Count(s[:i], ")")
		part(s[:i])
		s = s[i:]
		end := -1
		if s[1] == '(' && closing > 0 {
			end = strings.IndexByte(s, ')')
		}
		switch {
		case s[1] == '$':
			part("$")
			s = s[2:]
		case end > 0:
			if value, ok := lookup(s[2:end]); ok {
				part(value)
			} else {
				part(s[:end+1])
			}
			s = s[end+1:]
			closing--
		default:
			part("$")
			s = s[1:]
		}
	}
}
