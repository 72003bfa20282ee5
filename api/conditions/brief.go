package conditions

import (
	"strings"
	"unicode/utf8"
)

// maxMessage is how long a message of an event or a condition is, in bytes: as that of an event of a cluster.
const maxMessage = 1024

// Brief returns a message of a length that is stored for very many objects. Messages quote what clients and programs write.
func Brief(message string) string {
	const rest = "..."
	if len(message) <= maxMessage {
		return message
	}
	end := maxMessage - len(rest)
	for end > 0 && !utf8.RuneStart(message[end]) {
		end--
	}
	return strings.Clone(message[:end]) + rest // the whole is not kept for it
}
