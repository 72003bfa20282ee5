package worker

import (
	"testing"

	"github.com/jobd/jobd/runtime"
)

func TestDiskFull(t *testing.T) {
	for words, full := range map[string]bool{
		"crun: mkdir `/work`: No space left on device":                                                  true,
		"runc create failed: unable to start container process: mkdir /work: no space left on device\n": true,
		"crun: executable file `no space left on device` not found in $PATH: No such file or directory": false,
		`exec: "/: no space left on device": executable file not found in $PATH`:                        false,
		"": false,
	} {
		if got := diskFull(runtime.Status{StartError: words}); got != full {
			t.Errorf("%q: full %t", words, got)
		}
	}
}
