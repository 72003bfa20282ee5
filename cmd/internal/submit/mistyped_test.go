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
		"a map for a list":                    {pod(`"containers":{"name":"c"}`), `containers takes a list of fields: each of its elements begins with "- "`},
		"a map as the environment":            {container(`"env":{"A":"b"}`), `env takes a list of names and values: lines such as "- {name: A, value: b}"`},
		"a list for text":                     {container(`"image":["a"]`), "takes text, not a list"},
		"a number in quotes":                  {`{"spec":{"backoffLimit":"3"}}`, "spec.backoffLimit takes a whole number"},
		"a duration":                          {`{"spec":{"activeDeadlineSeconds":"10m"}}`, "without a unit"},
		"a fraction":                          {`{"spec":{"parallelism":1.5}}`, "takes a whole number"},
		"a number as a policy":                {container(`"imagePullPolicy":3`), "imagePullPolicy takes text"},
		"text for a pod's security":           {pod(`"securityContext":"x"`), "securityContext takes fields of its own"},
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

// TestModesAreOctal: whoever has written the mode of a file without its zero learns that.
func TestModesAreOctal(t *testing.T) {
	const between = ": must be a number between 0 and 0777 (octal), both inclusive"
	said := "spec.template.spec.volumes[0].secret.defaultMode: Invalid value: "
	if help := Mistyped(said + "644" + between); !strings.HasSuffix(help, "0644.") {
		t.Errorf("%q", help)
	}
	if help := Mistyped(said+"-1"+between) + Mistyped(said+"980"+between); help != "" {
		t.Errorf("%q", help)
	}
}

// TestTheFieldOfAWrongValue: what the server's words leave out is taken from what was sent to it.
func TestTheFieldOfAWrongValue(t *testing.T) {
	const (
		noAmount = "Job in version \"v1\" cannot be handled as a Job: quantities must match the regular expression '^...$'"
		patch    = "The request is invalid: patch: Invalid value: \"map[...]\": "
	)
	job := func(container string) string {
		return `{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"spec":{"containers":[{"name":"a"},{` + container + `}],"initContainers":[{"name":"b"}]}}}}`
	}
	applied := func(manifest string) string {
		raw, err := json.Marshal(
			map[string]any{"metadata": map[string]any{"annotations": map[string]string{"kubectl.kubernetes.io/last-applied-configuration": manifest}}},
		)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for name, tc := range map[string]struct{ message, sent, words string }{
		"a limit": {noAmount, job(`"resources":{"requests":{"cpu":"1"},"limits":{"memory":"64MB"}}`),
			`spec.template.spec.containers[1].resources.limits.memory has "64MB"`},
		"a request, in YAML": {noAmount, "spec: {template: {spec: {containers: [{resources: {requests: {cpu: 0.5 cpu}}}]}}}",
			`containers[0].resources.requests.cpu has "0.5 cpu"`},
		"blanks around it are none": {noAmount, job(`"resources":{"limits":{"cpu":" 1 ","memory":"512mb"}}`), `limits.memory has "512mb"`},
		"of an emptyDir": {noAmount, `{"spec":{"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1gb"}}]}}`,
			`spec.volumes[0].emptyDir.sizeLimit has "1gb"`},
		"of a claim": {noAmount, `{"spec":{"resources":{"requests":{"storage":"10GB"}}}}`, `spec.resources.requests.storage has "10GB"`},
		"of a quota": {noAmount, `{"spec":{"hard":{"requests.memory":"8GB"}}}`, `spec.hard.requests.memory has "8GB"`},
		"of a range": {noAmount, `{"spec":{"limits":[{"type":"Container","default":{"cpu":"half"}}]}}`,
			`spec.limits[0].default.cpu has "half"`},
		"that was not sent": {noAmount, "", "An amount is a number"},
		"an argument of a patch": {patch + "cannot convert int64 to string", applied(job(`"args":["sleep",5]`)),
			"spec.template.spec.containers.args takes text"},
		"true in the command of a patch": {patch + "unrecognized type: string", applied(job(`"command":[true]`)),
			"spec.template.spec.containers.command takes text"},
		"a list of a patch": {patch + "cannot restore slice from string", applied(job(`"command":"sleep"`)), "containers.command takes a list"},
		"a number of a patch": {patch + "cannot convert string to int32",
			applied(`{"apiVersion":"batch/v1","kind":"Job","spec":{"parallelism":"3"}}`), "spec.parallelism takes a whole number"},
		"an amount of a patch": {patch + "quantities must match the regular expression",
			applied(job(`"resources":{"limits":{"memory":"64MB"}}`)), `limits.memory has "64MB"`},
		"a patch written by hand":        {patch + "cannot convert int64 to string", `{"metadata":{"labels":{"a":1}}}`, "put quotes around bare numbers"},
		"a message about something else": {"cannot convert the image", job(`"args":[5]`), ""},
	} {
		if help := Mistyped(tc.message, []byte(tc.sent)); !strings.Contains(help, tc.words) || tc.words == "" && help != "" {
			t.Errorf("%s: %q, want %q", name, help, tc.words)
		}
	}
	if help := NamespaceMissing(`failed to create job: namespaces "team" not found`); !strings.HasSuffix(help,
		"jobctl create namespace team") || NamespaceMissing(`pods "team" not found`) != "" {
		t.Errorf("of a namespace it says %q", help)
	}
}

// TestMisspelt: a field that is not there is most often one beside it, or one that belongs elsewhere.
func TestMisspelt(t *testing.T) {
	for path, want := range map[string]string{
		"spec.backofLimit":                            "spec.backofLimit: is backoffLimit meant?",
		"spec.templates":                              "spec.templates: is template meant?",
		"spec.template.spec.restartpolicy":            "is restartPolicy meant?",
		"spec.template.spec.container":                "is containers meant?",
		"spec.template.spec.containers[0].comand":     "is command meant?",
		"spec.template.spec.containers[1].env[0].val": "is value meant?",
		"spec.template.spec.backoffLimit":             "spec.template.spec.backoffLimit: in a Job it is spec.backoffLimit.",
		"spec.containers":                             "in a Job it is spec.template.spec.containers.",
		"spec.restartPolicy":                          "in a Job it is spec.template.spec.restartPolicy.",
		"spec.template.spec.image":                    "in a Job it is spec.template.spec.containers.image.",
		"spec.template.spec.containers[0].volumes":    "in a Job it is spec.template.spec.volumes.",
		"spec.template.spec.containers[0].limits":     "in a Job it is spec.template.spec.containers.resources.limits.",
		"spec.template.spec.ttlSecondsAfterFinished":  "in a Job it is spec.ttlSecondsAfterFinished.",
		"spec.nothingLikeThis":                        "",
		"nothing.at.all":                              "",
	} {
		said := `Job in version "v1" cannot be handled as a Job: strict decoding error: unknown field "` + path + `"`
		if help := Mistyped(said); !strings.HasSuffix(help, want) || want == "" && help != "" {
			t.Errorf("%s: %q", path, help)
		}
	}
	applied := `failed to create typed patch object (default/a; batch/v1, Kind=Job): ` +
		`.spec.template.spec.containers[name="a.b"].comand: field not declared in schema`
	if help := Mistyped(applied); help != "spec.template.spec.containers.comand: is command meant?" {
		t.Errorf("%q", help)
	}
	cron := `CronJob in version "v1" cannot be handled as a CronJob: strict decoding error: ` +
		`unknown field "spec.template", unknown field "spec.timezone"`
	if help, want := Mistyped(cron), "spec.template: in a CronJob it is spec.jobTemplate.spec.template.\nspec.timezone: is timeZone meant?"; help != want {
		t.Errorf("%q", help)
	}
	said := `strict decoding error: unknown field "spec.nodeselector"`
	if help := Mistyped(said, []byte(`{"kind":"Pod"}`)); !strings.HasSuffix(help, "is nodeSelector meant?") {
		t.Errorf("%q", help)
	}
	if help := Mistyped(`strict decoding error: unknown field "spec.x"`, []byte(`{"kind":"Widget"}`), []byte("no object")); help != "" {
		t.Errorf("%q", help)
	}
}

// TestInOtherWords: what something is to be, where the server says what it is not.
func TestInOtherWords(t *testing.T) {
	for said, want := range map[string]string{
		`spec.schedule: Invalid value: "0 0 12 * * *": expected exactly 5 fields, found 6: [0 0 12 * * *]`:                    "There is no field for seconds",
		`spec.schedule: Invalid value: "0 0 * * 7": end of range (7) above maximum (6): 7`:                                    "(0-6, SUN-SAT)",
		`spec.schedule: Invalid value: "@dayly": unrecognized descriptor: @dayly`:                                             "@daily",
		`spec.schedule: Invalid value: "TZ=UTC 0 0 * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead`:  "",
		`spec.timeZone: Invalid value: "CEST": unknown time zone CEST`:                                                        "Europe/Berlin",
		`job in version "v1" cannot be handled as a Job: no kind "job" is registered for version "batch/v1" in scheme "x.go"`: "Write kind: Job",
		`no kind "Widgets" is registered for version "batch/v1" in scheme "x.go"`:                                             "",
		`error: error validating "a.yaml": error validating data: apiVersion not set; if you choose`:                          "apiVersion: batch/v1",
		`error: error validating "a.yaml": error validating data: [apiVersion not set, kind not set]; if you choose`:          "kind: Job",
		`limits: Required value: Limit must be set for non overcommitable resources`:                                          "requests may be left out",
		`limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified`:                              "nvidia.com/gpu",
	} {
		if help := Mistyped(said); !strings.Contains(help, want) || want == "" && help != "" {
			t.Errorf("%s\n%q", said, help)
		}
	}
}
