package config

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestDevices(t *testing.T) {
	var c Config
	if err := yaml.UnmarshalStrict([]byte("devices: {nvidia.com/gpu: {replicas: 4}}"), &c); err != nil {
		t.Fatal(err)
	}
	if got := c.Devices.String(); got != "nvidia.com/gpu=4" || c.Devices.check() != nil || c.Devices.Replicas()["nvidia.com/gpu"] != 4 {
		t.Errorf("%s, %v", got, c.Devices.check())
	}
	err := c.Devices.Set("amd.com/gpu=2,nvidia.com/gpu=0")
	if err != nil || c.Devices.String() != "amd.com/gpu=2,nvidia.com/gpu=0" || len(c.Devices.Replicas()) != 1 {
		t.Errorf("%s, %v", c.Devices.String(), err)
	}
	for value, wrong := range map[string]string{
		"nvidia.com/gpu": "KIND=REPLICAS", "nvidia.com/gpu=many": "KIND=REPLICAS", "gpu=2": "no kind of devices", "nvidia.com/gpu=-1": "not from 0",
		"nvidia.com/gpu=100000": "not from 0", "a b/c=2": "no kind of devices",
	} {
		var d Devices
		err := d.Set(value)
		if err == nil {
			err = d.check()
		}
		if err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", value, err)
		}
	}
	if err := yaml.UnmarshalStrict([]byte("devices: {nvidia.com/gpu: {replica: 4}}"), &c); err == nil {
		t.Error("an unknown name is taken")
	}
}
