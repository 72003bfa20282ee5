// Package repository tests what no package of the program owns: the documentation, the scripts and the packaging.
package repository

import (
	"log"
	"os"
	"testing"
)

// TestMain has the tests run in the root of the repository, where the paths in them begin.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		log.Fatal(err)
	}
	os.Exit(m.Run())
}
