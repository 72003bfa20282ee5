package config

import (
	"encoding/json"
	"fmt"

	"github.com/jobd/jobd/runtime/cgroup"
)

// WeightText is a weight as people write it, which in a file may be a number.
type WeightText string

// UnmarshalJSON takes a number for its text.
func (w *WeightText) UnmarshalJSON(data []byte) error {
	var number json.Number
	if err := json.Unmarshal(data, &number); err == nil && data[0] != '"' {
		*w = WeightText(number)
		return nil
	}
	return json.Unmarshal(data, (*string)(w))
}

// String implements pflag.Value.
func (w *WeightText) String() string { return string(*w) }

// Set implements pflag.Value.
func (w *WeightText) Set(text string) error {
	*w = WeightText(text)
	return nil
}

// Type implements pflag.Value.
func (w *WeightText) Type() string { return "string" }

// PodsWeights returns the shares of the processors and disks that all pods have together.
func (c *Config) PodsWeights() (cpu, io cgroup.Weight, err error) {
	if cpu, err = cgroup.ParseWeight(string(c.PodsCPUWeight)); err != nil {
		return cpu, io, fmt.Errorf("pods-cpu-weight: %w", err)
	}
	if io, err = cgroup.ParseWeight(string(c.PodsIOWeight)); err != nil {
		return cpu, io, fmt.Errorf("pods-io-weight: %w", err)
	}
	return cpu, io, nil
}
