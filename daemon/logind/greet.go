package logind

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
)

// longestLine is how long an answer may be before the first message.
const longestLine = 1 << 10

// socketOf returns the socket of the first bus of an address that has one.
func socketOf(address string) (string, error) {
	for one := range strings.SplitSeq(address, ";") {
		keys, ok := strings.CutPrefix(one, "unix:")
		if !ok {
			continue
		}
		for pair := range strings.SplitSeq(keys, ",") {
			key, text, _ := strings.Cut(pair, "=")
			value, err := url.PathUnescape(text)
			switch {
			case err != nil:
			case key == "path":
				return value, nil
			case key == "abstract":
				return "@" + value, nil
			}
		}
	}
	return "", fmt.Errorf("%q names no unix socket of a bus", address)
}

// greet says who this is, which the bus knows from the kernel too, and that files can be passed.
func greet(c io.ReadWriter) error {
	uid := hex.EncodeToString([]byte(strconv.Itoa(os.Geteuid())))
	for _, step := range []struct{ say, want string }{
		{"\x00AUTH EXTERNAL " + uid, "OK "},
		{"NEGOTIATE_UNIX_FD", "AGREE_UNIX_FD"},
		{say: "BEGIN"},
	} {
		if _, err := io.WriteString(c, step.say+"\r\n"); err != nil {
			return err
		}
		if step.want == "" {
			continue
		}
		if line, err := readLine(c); err != nil {
			return err
		} else if !strings.HasPrefix(line, step.want) {
			return fmt.Errorf("the bus answers %q to %q", line, strings.TrimPrefix(step.say, "\x00"))
		}
	}
	return nil
}

// readLine reads no more than a line.
func readLine(r io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); len(line) < longestLine; line = append(line, b[0]) {
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return strings.TrimSuffix(string(line), "\r"), nil
		}
	}
	return "", errors.New("the bus answers with a line without an end")
}
