package oci

import (
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// fileKey returns the value of a variable in a file that a container of the pod has written (EnvVarSource.FileKeyRef);
// ok is false if it is optional and missing.
func fileKey(in Input, ref *corev1.FileKeySelector) (value string, ok bool, err error) {
	if in.VolumeFile == nil {
		return "", false, nil
	}
	file := readEnvFile(in, ref)
	if errdefs.IsNotFound(file.err) && isTrue(ref.Optional) {
		return "", false, nil
	} else if file.err != nil {
		return "", false, file.err
	}
	if value, ok = file.values[ref.Key]; !ok && !isTrue(ref.Optional) {
		return "", false, fmt.Errorf("environment variable key %q not found in file %q", ref.Key, ref.Path)
	}
	return value, ok, nil
}

// envFile is the content of a file with variables, or why it cannot be read.
type envFile struct {
	values map[string]string
	err    error
}

// readEnvFile reads a file once for all variables that come from it.
func readEnvFile(in Input, ref *corev1.FileKeySelector) envFile {
	key := ref.VolumeName + "/" + ref.Path
	if f, ok := in.envFiles[key]; ok {
		return f
	}
	var f envFile
	content, err := in.VolumeFile(ref.VolumeName, ref.Path)
	if err != nil {
		f.err = fmt.Errorf("couldn't read the file %s of the volume %s: %w", ref.Path, ref.VolumeName, err)
	} else if f.values, err = parseEnvFile(string(content)); err != nil {
		f.err = fmt.Errorf("couldn't parse the file %s of the volume %s: %w", ref.Path, ref.VolumeName, err)
	}
	if in.envFiles != nil {
		in.envFiles[key] = f
	}
	return f
}

// parseEnvFile parses lines of the form NAME='value'. The text between the quotes is taken literally and may span
// lines; lines that are empty or begin with # are ignored. If a name occurs twice, the later value counts. Anything
// else is an error, so that no variable gets a value that nobody intended.
func parseEnvFile(content string) (map[string]string, error) {
	values := map[string]string{}
	for line := 1; content != ""; {
		rest := strings.TrimLeft(content, " \t\r")
		if strings.HasPrefix(rest, "\n") || strings.HasPrefix(rest, "#") || rest == "" {
			_, content, _ = strings.Cut(rest, "\n")
			line++
			continue
		}
		name, rest, ok := strings.Cut(rest, "=")
		name = strings.TrimSpace(name)
		if !ok || len(utilvalidation.IsRelaxedEnvVarName(name)) > 0 || strings.ContainsAny(name, " \t\n'") {
			return nil, fmt.Errorf("line %d: no NAME='value'", line)
		}
		rest, ok = strings.CutPrefix(strings.TrimLeft(rest, " \t"), "'")
		if !ok {
			return nil, fmt.Errorf("line %d: the value of %s is not in single quotes", line, name)
		}
		value, rest, ok := strings.Cut(rest, "'")
		if !ok {
			return nil, fmt.Errorf("line %d: the value of %s has no closing quote", line, name)
		}
		end, next, _ := strings.Cut(rest, "\n")
		if strings.TrimSpace(end) != "" {
			return nil, fmt.Errorf("line %d: something follows the value of %s", line, name)
		}
		values[name], content = value, next
		line += strings.Count(value, "\n") + 1
	}
	return values, nil
}
