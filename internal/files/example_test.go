package files_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/jobd/jobd/internal/files"
)

// Whoever reads a file that is replaced finds the old content or the new one, never a part of it.
func ExampleReplace() {
	dir, err := os.MkdirTemp("", "files")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "record")
	for _, content := range []string{"first", "second"} {
		if err := files.Replace(path, []byte(content), 0o600); err != nil {
			fmt.Println(err)
		}
	}
	content, err := files.Read(path)
	fmt.Println(string(content), err)
	left, _ := os.ReadDir(dir)
	fmt.Println(len(left), "file")
	// Output:
	// second <nil>
	// 1 file
}
