package e2e

import (
	"strings"

	"sigs.k8s.io/yaml"
)

// jobManifest is a Job whose pods run one container, c. The fields but for name and program are more of these parts of the
// manifest, as fields in YAML, which replace the default ones: "resources: {...}", or a block of lines.
type jobManifest struct {
	name, metadata, spec string
	podMetadata, pod     string
	container            string

	program []string // what the container runs; none: it sleeps
}

// failing is a Job of which every pod runs a command of sh once.
func failing(name, command string) jobManifest {
	return jobManifest{name: name, spec: "backoffLimit: 0", program: []string{"sh", "-c", command}}
}

// String returns the manifest.
func (j jobManifest) String() string {
	if j.program == nil {
		j.program = []string{"sleep", "3600"}
	}
	container := fields(j.container, map[string]any{"name": "c", "image": "busybox:1.36", "command": j.program})
	pod := fields(j.pod, map[string]any{
		"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": []any{container},
	})
	job := map[string]any{
		"apiVersion": "batch/v1", "kind": "Job", "metadata": fields(j.metadata, map[string]any{"name": j.name}),
		"spec": fields(j.spec, map[string]any{
			"template": map[string]any{"metadata": fields(j.podMetadata, nil), "spec": pod},
		}),
	}
	text, err := yaml.Marshal(job)
	if err != nil {
		panic(err) // of maps and strings
	}
	return "\n" + string(text)
}

// fields returns the fields that some YAML has, and the others.
func fields(text string, others map[string]any) map[string]any {
	all := map[string]any{}
	if !strings.Contains(text, "\n") {
		text = "{" + text + "}" // so that one line may have several
	}
	if err := yaml.UnmarshalStrict([]byte(text), &all); err != nil {
		panic(text + ": " + err.Error()) // a test with a mistake
	}
	for name, value := range others {
		if _, ok := all[name]; !ok {
			all[name] = value
		}
	}
	return all
}

// list joins manifests to one file.
func list(jobs ...jobManifest) string {
	var all strings.Builder
	for _, j := range jobs {
		all.WriteString("---" + j.String())
	}
	return all.String()
}
