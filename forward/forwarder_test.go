package forward

import "testing"

func TestNamespaces(t *testing.T) {
	for name, c := range map[string]struct {
		mapped map[string]string
		valid  bool
	}{
		"all":                {nil, true},
		"crosswise":          {map[string]string{"a": "b", "b": "a"}, true},
		"two into one":       {map[string]string{"a": "c", "b": "c"}, false},
		"into none":          {map[string]string{"a": ""}, false},
		"of none":            {map[string]string{"": "a"}, false},
		"what is not a name": {map[string]string{"a": "../b"}, false},
	} {
		if err := checkNamespaces(c.mapped); (err == nil) != c.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
