package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
)

// maxReplicas bounds how many pods share a device: more is a mistake.
const maxReplicas = 1000

// Devices says how devices are offered, by their kind: in a file, nvidia.com/gpu: {replicas: 4}; a flag has nvidia.com/gpu=4 and may be
// repeated.
type Devices map[corev1.ResourceName]Device

// Device says how devices of a kind are offered.
type Device struct {
	// Replicas is how many pods may share one; 0 is none.
	Replicas int `json:"replicas"`
}

// The values of Config.DevicesInUse.
const (
	DevicesInUseWait   = "wait"
	DevicesInUseIgnore = "ignore"
)

// UnmarshalJSON reads them as a file has them.
func (d *Devices) UnmarshalJSON(data []byte) error {
	read := map[corev1.ResourceName]Device{}
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&read); err != nil {
		return err
	}
	*d = read
	return nil
}

// Set adds those of a flag. It implements pflag.Value.
func (d *Devices) Set(value string) error {
	if *d == nil {
		*d = Devices{}
	}
	for part := range strings.SplitSeq(value, ",") {
		kind, number, ok := strings.Cut(part, "=")
		replicas, err := strconv.Atoi(number)
		if !ok || err != nil {
			return fmt.Errorf("%q is not of the form KIND=REPLICAS", part)
		}
		(*d)[corev1.ResourceName(kind)] = Device{Replicas: replicas}
	}
	return nil
}

// String returns what Set takes. It implements pflag.Value.
func (d *Devices) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(*d)) {
		parts = append(parts, fmt.Sprintf("%s=%d", kind, (*d)[kind].Replicas))
	}
	return strings.Join(parts, ",")
}

// Type implements pflag.Value.
func (d *Devices) Type() string { return "kind=replicas" }

// Replicas returns how many pods may share a device, by its kind.
func (d Devices) Replicas() map[corev1.ResourceName]int {
	all := map[corev1.ResourceName]int{}
	for kind, device := range d {
		if device.Replicas > 0 {
			all[kind] = device.Replicas
		}
	}
	return all
}

func (d Devices) check() error {
	for _, kind := range slices.Sorted(maps.Keys(d)) {
		if msgs := utilvalidation.IsQualifiedName(string(kind)); len(msgs) > 0 || !strings.Contains(string(kind), "/") {
			return fmt.Errorf("%q is no kind of devices such as nvidia.com/gpu", kind)
		}
		if n := d[kind].Replicas; n < 0 || n > maxReplicas {
			return fmt.Errorf("%s: replicas %d is not from 0 to %d", kind, n, maxReplicas)
		}
	}
	return nil
}
