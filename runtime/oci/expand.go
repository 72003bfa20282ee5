package oci

import "strings"

// expand replaces $(NAME) by what lookup knows under that name. What is not known stays as it is written, and $$ stands
// for one $, so that $$(NAME) is never replaced. Replaced text is not looked at again.
func expand(s string, lookup func(string) (string, bool)) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(s, '$')
		if i < 0 || i == len(s)-1 {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:i])
		s = s[i:]
		end := -1
		if s[1] == '(' {
			end = strings.IndexByte(s, ')')
		}
		switch {
		case s[1] == '$':
			b.WriteByte('$')
			s = s[2:]
		case end > 0:
			if value, ok := lookup(s[2:end]); ok {
				b.WriteString(value)
			} else {
				b.WriteString(s[:end+1])
			}
			s = s[end+1:]
		default:
			b.WriteByte('$')
			s = s[1:]
		}
	}
}

func expandAll(list []string, lookup func(string) (string, bool)) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = expand(s, lookup)
	}
	return out
}
