// Specimages writes the images that Kubernetes' own specs ask for to its standard output, as one archive that jobctl image
// import reads:
//
//	go run ./testdata/images/cmd/specimages SOURCES AGNHOST NONEWPRIVS > specs.tar
package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/jobd/jobd/testdata/images"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "specimages:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: specimages SOURCES AGNHOST NONEWPRIVS > FILE")
	}
	all, err := images.Specs(args[0], args[1], args[2])
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	if err := images.WriteDocker(out, all...); err != nil {
		return err
	}
	return out.Flush()
}
