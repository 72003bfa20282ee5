// Package assets has the files of the page that draws Jobs, for whoever serves or inlines them: one ES module and one style
// sheet, without dependencies and as a browser takes them.
package assets

import "embed"

// FS has the files: picture.js and picture.css.
//
//go:embed *.js *.css
var FS embed.FS
