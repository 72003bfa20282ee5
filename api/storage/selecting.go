package storage

import (
	"bytes"
	"context"
	"hash/maphash"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/jobd/jobd/store"
)

// What a label selector matches is found in two steps. Words say of stretches of objects which labels these have, so that most are
// not read; and needles say of an object that is read whether it has to be decoded.

// wanted is what may match a selector. Once ctx has ended it is everything, so that whoever reads notices.
func wanted(ctx context.Context, s labels.Selector) store.Wanted {
	if s == nil || s.Empty() {
		return store.Wanted{}
	}
	needles := needlesOf(s)
	return store.Wanted{
		Words: wordsOf(s),
		Value: func(value []byte) bool { return needles.in(value) || ctx.Err() != nil },
	}
}

// Fields of what is stored of every object, whether of a kind with a protobuf form or not, and of a label.
const (
	fieldMetadata protowire.Number = 1
	fieldLabels   protowire.Number = 11
	fieldKey      protowire.Number = 1
	fieldValue    protowire.Number = 2
)

// Words are the labels of a stored object, and their keys: what store.Options need so that lists by label read little.
func Words(value []byte, add func(word uint32)) bool {
	metadata, ok := message(value, fieldMetadata)
	if !ok {
		return false
	}
	return fieldsOf(metadata, func(number protowire.Number, label []byte) bool {
		if number != fieldLabels {
			return true
		}
		key, _ := message(label, fieldKey)
		value, _ := message(label, fieldValue)
		hash := maphash.Bytes(seed, key)
		add(uint32(hash))
		add(labelWord(hash, value))
		return true
	})
}

// message returns the first field of a number that has a length.
func message(b []byte, wanted protowire.Number) (value []byte, ok bool) {
	fieldsOf(b, func(number protowire.Number, v []byte) bool {
		value, ok = v, number == wanted
		return !ok
	})
	if !ok {
		return nil, false
	}
	return value, true
}

// fieldsOf calls fn with the fields of a message that have a length until it returns false. It reports whether b is a message as far as
// it has read.
func fieldsOf(b []byte, fn func(number protowire.Number, value []byte) bool) bool {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return false
		}
		if kind == protowire.BytesType {
			if value, _ := protowire.ConsumeBytes(b); !fn(number, value) {
				return true
			}
		}
		b = b[n:]
	}
	return true
}

// seed keeps users from choosing labels whose words are those of others.
var seed = maphash.MakeSeed()

// labelWord is the word of a label whose key has a hash. That of the key alone is the hash itself.
func labelWord(key uint64, value []byte) uint32 {
	const odd = 0x9e3779b97f4a7c15 // so that the key of one is not the value of another
	return uint32(key*odd + maphash.Bytes(seed, value))
}

// manyValues are so many that it is not worth while to look for each.
const manyValues = 16

// wordsOf returns what objects have that a selector matches.
func wordsOf(s labels.Selector) (groups [][]uint32) {
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		hash := maphash.String(seed, r.Key())
		switch r.Operator() {
		case selection.NotIn, selection.NotEquals, selection.DoesNotExist:
			// an object without the label matches
		case selection.Equals, selection.DoubleEquals, selection.In:
			values := r.ValuesUnsorted()
			if len(values) > manyValues {
				groups = append(groups, []uint32{uint32(hash)})
				continue
			}
			group := make([]uint32, 0, len(values))
			for _, value := range values {
				group = append(group, labelWord(hash, []byte(value)))
			}
			groups = append(groups, group)
		default:
			groups = append(groups, []uint32{uint32(hash)})
		}
	}
	return groups
}

// needles are what the stored form of every object contains that a label selector matches, so that a list need not decode
// the others. Labels are stored as they are, since neither protobuf nor JSON escapes a character that one may have.
type needles [][]byte

func needlesOf(s labels.Selector) (n needles) {
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		switch r.Operator() {
		case selection.NotIn, selection.NotEquals, selection.DoesNotExist:
			continue // an object without the label matches
		}
		n = append(n, []byte(r.Key()))
		if values := r.ValuesUnsorted(); len(values) == 1 && r.Operator() != selection.GreaterThan && r.Operator() != selection.LessThan {
			n = append(n, []byte(values[0]))
		}
	}
	// Long ones are the rarest, and what is missing decides.
	slices.SortStableFunc(n, func(a, b []byte) int { return len(b) - len(a) })
	return n
}

// in reports whether a stored value contains all of them.
func (n needles) in(value []byte) bool {
	for _, needle := range n {
		if !bytes.Contains(value, needle) {
			return false
		}
	}
	return true
}
