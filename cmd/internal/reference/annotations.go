package reference

import (
	"fmt"
	"strings"

	"github.com/jobd/jobd/api/annotations"
)

// Annotations returns docs/annotations.md.
func Annotations() string {
	var page strings.Builder
	page.WriteString(`# Annotations

This page is generated: ` + "`make generate`" + `. ` + "`jobctl explain annotations`" + ` prints the same.

Annotations are strings in ` + "`metadata.annotations`" + ` of an object, or of a template in it. A cluster ignores those of ` + "`jobd.dev`" + `, so a manifest
with them can be used in both. One that jobd does not know, or that stands in a wrong place, draws a warning that names the nearest one or the right place.

| annotation | it stands in | meaning | for example |
|---|---|---|---|
`)
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	for _, e := range annotations.All() {
		fmt.Fprintf(&page, "| `%s` | %s | %s | `%s` |\n",
			e.Name, strings.Join(e.Places, "; "), cell.Replace(e.Meaning), cell.Replace(e.Example))
	}
	return page.String()
}
