// Mkimage writes one of the test images to its standard output, as an archive that docker load and jobctl image
// import read:
//
//	go run ./testdata/images/cmd/mkimage perl docker.io/library/perl:5.34.0 > perl.tar
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/jobd/jobd/testdata/images"
)

var builders = map[string]func(names ...string) (images.Image, error){
	"busybox": images.Busybox, "perl": images.Perl, "python": images.Python,
	"bash": images.Bash, "ubuntu": images.Ubuntu, "redis": images.Redis,
}

func main() {
	oci := flag.Bool("oci", false, "write an OCI layout instead of docker's format")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: mkimage [--oci] %s [NAME...] > FILE\n",
			strings.Join(slices.Sorted(maps.Keys(builders)), "|"))
	}
	flag.Parse()
	if err := run(flag.Args(), *oci); err != nil {
		fmt.Fprintln(os.Stderr, "mkimage:", err)
		os.Exit(1)
	}
}

func run(args []string, oci bool) error {
	if len(args) == 0 || builders[args[0]] == nil {
		flag.Usage()
		os.Exit(2)
	}
	img, err := builders[args[0]](args[1:]...)
	if err != nil {
		return err
	}
	archive := img.Docker()
	if oci {
		archive = img.OCI()
	}
	defer archive.Close()
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	if _, err := io.Copy(out, archive); err != nil {
		return err
	}
	return out.Flush()
}
