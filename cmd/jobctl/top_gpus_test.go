package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/jobd/jobd/api/gpus"
)

func TestPrintGPUs(t *testing.T) {
	size := func(mb int64) *int64 { return new(mb << 20) }
	list := &gpus.List{Items: []gpus.GPU{
		{
			Index: 0, Name: "RTX 4090", Utilization: new(97), Memory: size(24576), MemoryUsed: size(9728),
			Pods: []gpus.Pod{{Namespace: "team", Name: "a", Shared: true, MemoryUsed: size(500)}, {Namespace: "team", Name: "b", Shared: true}}, Others: 2,
		},
		{
			Index: 1, Name: "RTX 4090", Memory: size(24576), MemoryUsed: size(9216), InUse: true,
			Processes: []gpus.Process{{PID: 4711, User: "carol", Program: "py\x1bthon", MemoryUsed: size(9216)}},
		},
		{Index: 2, Instance: new(3), InUse: true},
		{Index: 10},
	}}
	var out bytes.Buffer
	if err := printGPUs(&out, list); err != nil {
		t.Fatal(err)
	}
	want := `GPU   NAME       BUSY        MEMORY      OF          USED-BY                        WITH
0     RTX 4090   97%         9.5GB       24GB        pod team/a                     500MB
0                                                    pod team/b                     <unknown>
0                                                    2 other pods                   
1     RTX 4090   <unknown>   9GB         24GB        pid 4711 of carol (py` + "\uFFFD" + `thon)    9GB
2/3   <none>     <unknown>   <unknown>   <unknown>   a program that is not jobd's   
10    <none>     <unknown>   <unknown>   <unknown>   <none>                         
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
