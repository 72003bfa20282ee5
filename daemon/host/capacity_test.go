package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestHugePagesAreTakenOutOfTheMemory(t *testing.T) {
	dir := t.TempDir()
	for size, n := range map[string]string{"hugepages-2048kB": "512\n", "hugepages-1048576kB": "0\n", "other": "1\n"} {
		if err := os.MkdirAll(filepath.Join(dir, size), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, size, "nr_hugepages"), []byte(n), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	machine := readHugePages(dir)
	machine[corev1.ResourceMemory] = resource.MustParse("4Gi")
	takeHugePages(machine)
	want := corev1.ResourceList{
		"hugepages-1Gi": resource.MustParse("0"), "hugepages-2Mi": resource.MustParse("1Gi"), "memory": resource.MustParse("3Gi"),
	}
	if diff := cmp.Diff(want, machine); diff != "" {
		t.Error(diff)
	}
}
