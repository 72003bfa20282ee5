// Package translations loads kubectl's translations only for those who read another language than English. kubectl loads
// them while its packages initialize, which takes a quarter of the time of a short command.
//
// It works by being imported: Go initializes a package as soon as what it imports is, so this one's init comes before
// that of every kubectl package that translates something.
package translations

import (
	"cmp"
	"os"
	"strings"

	"k8s.io/kubectl/pkg/util/i18n"
)

func init() {
	if !english(os.Getenv) {
		return
	}
	if err := i18n.SetLoadTranslationsFunc(func() error { return nil }); err != nil {
		panic(err) // something was translated before
	}
}

// english reports whether messages in English are wanted, by the environment variables that kubectl asks too.
func english(getenv func(string) string) bool {
	language := cmp.Or(getenv("LC_ALL"), getenv("LC_MESSAGES"), getenv("LANG"))
	return language == "" || language == "POSIX" || language == "C" || strings.HasPrefix(language, "C.") || strings.HasPrefix(language, "en_")
}
