package submit

import (
	"encoding/json"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
)

// TestMistyped goes through the decoder of the API's types, whose words are recognized.
func TestMistyped(t *testing.T) {
	pod := func(fields string) string { return `{"spec":{"template":{"spec":{` + fields + `}}}}` }
	container := func(fields string) string { return pod(`"containers":[{` + fields + `}]`) }
	const quotes = "put quotes around them"
	for name, tc := range map[string]struct{ job, words string }{
		"a number in the environment":         {container(`"env":[{"name":"A","value":1}]`), "spec.template.spec.containers.env.value takes text"},
		"a fraction in the environment":       {container(`"env":[{"name":"A","value":1.5}]`), quotes},
		"true as a command":                   {container(`"command":[true]`), "spec.template.spec.containers.command takes text"},
		"a number as an argument":             {container(`"args":["sleep",5]`), quotes},
		"yes as a label":                      {`{"metadata":{"labels":{"a":true}}}`, "metadata.labels takes text"},
		"a number as an annotation":           {`{"metadata":{"annotations":{"a":1}}}`, quotes},
		"a number as a node's label":          {pod(`"nodeSelector":{"a":1}`), quotes},
		"text as a command":                   {container(`"command":"sleep 5"`), "containers.command takes a list"},
		"a map for a list":                    {pod(`"containers":{"name":"c"}`), "containers takes a list"},
		"a list for text":                     {container(`"image":["a"]`), "takes text, not a list"},
		"a number in quotes":                  {`{"spec":{"backoffLimit":"3"}}`, "spec.backoffLimit takes a whole number"},
		"a duration":                          {`{"spec":{"activeDeadlineSeconds":"10m"}}`, "without a unit"},
		"a fraction":                          {`{"spec":{"parallelism":1.5}}`, "takes a whole number"},
		"true in quotes":                      {`{"spec":{"suspend":"true"}}`, "takes true or false, without quotes"},
		"text for fields":                     {`{"spec":{"template":"x"}}`, "spec.template takes fields of its own"},
		"megabytes":                           {container(`"resources":{"limits":{"memory":"64MB"}}`), "for 64MB write 64M"},
		"kilo in capitals":                    {container(`"resources":{"limits":{"memory":"64K"}}`), "for 8K 8k or 8Ki"},
		"a space before the unit":             {container(`"resources":{"limits":{"memory":"64 Mi"}}`), "without a space"},
		"a unit in small letters":             {container(`"resources":{"limits":{"memory":"64mi"}}`), "64Mi"},
		"syntax that no value is at fault of": {`{"spec":`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := json.Unmarshal([]byte(tc.job), &batchv1.Job{})
			if err == nil {
				t.Fatal("it is taken")
			}
			if help := Mistyped(err.Error()); !strings.Contains(help, tc.words) || tc.words == "" && help != "" {
				t.Errorf("%v\n%q", err, help)
			}
		})
	}
	for said, words := range map[string]string{
		`.spec.template.spec.containers[name="c"].command[0]: expected string, got &value.valueUnstructured{Value:true}`: `containers[name="c"].command[0] takes text`,
		`.spec.backoffLimit: expected numeric (int or float), got string`:                                                "spec.backoffLimit takes a whole number",
		`.spec.suspend: expected boolean, got &{true}`:                                                                   "spec.suspend takes true or false",
		`.spec.template.spec.containers: expected list, got &{map[]}`:                                                    "containers takes a list",
		`.spec.template: expected map, got &{x}`:                                                                         "spec.template takes fields",
		`spec.completions: Invalid value: -1: must be greater than or equal to 0`:                                        "",
	} {
		if help := Mistyped(said); !strings.Contains(help, words) || words == "" && help != "" {
			t.Errorf("%s\n%q", said, help)
		}
	}
}
