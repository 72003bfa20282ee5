package picture_test

import (
	"fmt"

	"github.com/jobd/jobd/api/picture"
)

// A column of cells is coded in runs, and decoded again.
func ExampleRuns() {
	states := []byte{picture.Succeeded, picture.Succeeded, picture.Succeeded, picture.Running, picture.Waiting, picture.Waiting}
	runs := picture.Runs(states)
	fmt.Println(runs)
	decoded, err := picture.Symbols(runs, picture.MaxCells)
	fmt.Println(string(decoded), err)
	// Output:
	// s3rw2
	// sssrww <nil>
}
