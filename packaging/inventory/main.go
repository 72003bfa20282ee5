// Command inventory says what the programs of a release consist of: it reads the modules out of the programs themselves,
// and writes their licences as one file of notices and a software bill of materials in SPDX 2.3. A module without a licence,
// or with one that Apache-2.0 cannot be combined with, is an error.
//
//	inventory -version v1.2.3 -time 1700000000 -notices NOTICES -sbom jobd.spdx.json PROGRAM...
package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/licensecheck"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// allowed are the licences of modules that may be part of jobd, by their SPDX names.
var allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense", "Zlib"}

// patents is a grant beside the licence of Go's own modules.
const patents = "GooglePatentsFile"

// licences are the files that are looked for in the directory of a module.
var licences = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)([.-].*)?$`)

// module is a part of the programs.
type module struct {
	path, version, sum string
	// dir holds its source, and with it its licence.
	dir string
	// names are those of its licences, texts what is to be passed on with the programs.
	names []string
	texts []string
}

func main() {
	version := flag.String("version", "", "version of the release")
	seconds := flag.Int64("time", 0, "when it was made, in seconds since 1970")
	notices := flag.String("notices", "", "file for the licences")
	sbom := flag.String("sbom", "", "file for the bill of materials")
	flag.Parse()
	if err := run(*version, time.Unix(*seconds, 0).UTC(), *notices, *sbom, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "inventory:", err)
		os.Exit(1)
	}
}

func run(version string, made time.Time, notices, sbom string, programs []string) error {
	modules, err := modulesOf(programs)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range modules {
		errs = append(errs, m.readLicences())
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := os.WriteFile(notices, noticesOf(modules), 0o644); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := spdxjson.Write(document(version, made, modules), &out, spdxjson.Indent(" ")); err != nil {
		return err
	}
	return os.WriteFile(sbom, out.Bytes(), 0o644)
}

// modulesOf returns the modules of the programs by their paths, Go's own library among them, but not jobd.
func modulesOf(programs []string) ([]*module, error) {
	found := map[string]*module{}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return nil, err
		}
		found["std"] = &module{path: "std", version: strings.TrimPrefix(info.GoVersion, "go")}
		for _, dep := range info.Deps {
			if dep.Replace != nil {
				return nil, fmt.Errorf("%s is replaced by %s, whose licence is not looked for", dep.Path, dep.Replace.Path)
			}
			found[dep.Path] = &module{path: dep.Path, version: dep.Version, sum: dep.Sum}
		}
	}
	modules := slices.SortedFunc(maps.Values(found), func(a, b *module) int { return cmp.Compare(a.path, b.path) })
	for _, m := range modules {
		if err := m.find(); err != nil {
			return nil, err
		}
	}
	return modules, nil
}

// find sets dir.
func (m *module) find() error {
	if m.path == "std" {
		out, err := exec.Command("go", "env", "GOROOT").Output()
		m.dir = strings.TrimSpace(string(out))
		return err
	}
	out, err := exec.Command("go", "mod", "download", "-json", m.path+"@"+m.version).Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", m.path, err, out)
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return err
	}
	m.dir = downloaded.Dir
	return nil
}

// readLicences sets names and texts.
func (m *module) readLicences() error {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || !licences.MatchString(entry.Name()) || filepath.Ext(entry.Name()) == ".docs" {
			continue
		}
		text, err := fs.ReadFile(os.DirFS(m.dir), entry.Name())
		if err != nil {
			return err
		}
		m.texts = append(m.texts, string(text))
		for _, match := range licensecheck.Scan(text).Match {
			if match.ID != "" && match.ID != patents && !slices.Contains(m.names, match.ID) {
				m.names = append(m.names, match.ID)
			}
		}
	}
	slices.Sort(m.names)
	var errs []error
	if len(m.names) == 0 {
		errs = append(errs, fmt.Errorf("%s has no licence in %s", m.path, m.dir))
	}
	for _, name := range m.names {
		if !slices.Contains(allowed, name) {
			errs = append(errs, fmt.Errorf("%s: %s is not one of the licences %s", m.path, name, strings.Join(allowed, ", ")))
		}
	}
	return errors.Join(errs...)
}

// noticesOf returns every text once, under the names of all modules that have it.
func noticesOf(modules []*module) []byte {
	users := map[string][]string{}
	var order []string
	for _, m := range modules {
		text := strings.Join(m.texts, "\n\n")
		if users[text] == nil {
			order = append(order, text)
		}
		users[text] = append(users[text], m.path+" "+m.version+" ("+strings.Join(m.names, " AND ")+")")
	}
	var out bytes.Buffer
	out.WriteString("jobd is made of these modules beside its own, each under the licence that follows its name.\n")
	for _, text := range order {
		fmt.Fprintf(&out, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), strings.TrimSpace(text))
	}
	return out.Bytes()
}

// document returns the bill of materials.
func document(version string, made time.Time, modules []*module) *v2_3.Document {
	const none = "NOASSERTION"
	doc := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      "jobd-" + version,
		DocumentNamespace: "https://github.com/jobd/jobd/releases/download/" + version + "/jobd.spdx.json",
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Organization", Creator: "jobd"}},
			Created:  made.Format(time.RFC3339),
		},
		Packages: []*v2_3.Package{{
			PackageName: "jobd", PackageSPDXIdentifier: "jobd", PackageVersion: version, PackageDownloadLocation: none,
			PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0", PackageCopyrightText: none,
		}},
	}
	relate := func(from, what, to string) {
		doc.Relationships = append(doc.Relationships, &v2_3.Relationship{
			RefA: common.DocElementID{ElementRefID: common.ElementID(from)}, Relationship: what,
			RefB: common.DocElementID{ElementRefID: common.ElementID(to)},
		})
	}
	relate("DOCUMENT", common.TypeRelationshipDescribe, "jobd")
	unnameable := regexp.MustCompile(`[^A-Za-z0-9.-]`)
	for _, m := range modules {
		id := "module-" + unnameable.ReplaceAllString(m.path, "-")
		licence := strings.Join(m.names, " AND ")
		doc.Packages = append(doc.Packages, &v2_3.Package{
			PackageName: m.path, PackageSPDXIdentifier: common.ElementID(id), PackageVersion: m.version,
			PackageDownloadLocation: none, PackageLicenseConcluded: licence, PackageLicenseDeclared: licence,
			PackageCopyrightText: none, PackageComment: m.sum,
			PackageExternalReferences: []*v2_3.PackageExternalReference{{
				Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
				Locator: "pkg:golang/" + m.path + "@" + m.version,
			}},
		})
		relate("jobd", common.TypeRelationshipContains, id)
	}
	return doc
}
