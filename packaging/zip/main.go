// Command zip writes a zip of a directory that follows from its files alone: in the order of their names, all of one time.
package main

import (
	"archive/zip"
	"errors"
	"flag"
	"io/fs"
	"log"
	"os"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("zip: ")
	seconds := flag.Int64("time", 0, "the time of all files, in seconds since 1970")
	flag.Parse()
	if flag.NArg() != 3 {
		log.Fatal("usage: zip -time SECONDS FILE PARENT DIRECTORY")
	}
	if err := write(flag.Arg(0), os.DirFS(flag.Arg(1)), flag.Arg(2), time.Unix(*seconds, 0).UTC()); err != nil {
		log.Fatal(err)
	}
}

// write packs the directory, with its name.
func write(name string, parent fs.FS, directory string, at time.Time) error {
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	w := zip.NewWriter(out)
	err = fs.WalkDir(parent, directory, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(parent, path)
		if err != nil {
			return err
		}
		file, err := w.CreateHeader(&zip.FileHeader{Name: path, Method: zip.Deflate, Modified: at})
		if err != nil {
			return err
		}
		_, err = file.Write(content)
		return err
	})
	return errors.Join(err, w.Close(), out.Close())
}
