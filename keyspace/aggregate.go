package keyspace

// aggregate is a value of many elements: everything that is not a string. It is all
// that the rest of the package knows of one. A new type is a file with the type, a
// file with its commands, and a row in kinds.
//
// What is stored is immutable for whoever holds it; only editAs changes one, after
// own. The order in which an aggregate visits its elements is a function of what it
// holds and how it came to, never of a Go map or a pointer, and an image keeps it.
type aggregate interface {
	// kind is its row.
	kind() *kind
	// form says which of the row's encodings it has now.
	form() int
	// len is the number of its elements. One without any is never stored, unless its
	// row says so.
	len() int
	// size estimates the memory it takes; see entry.size. It does not look at the
	// elements.
	size() int64
	// own is the aggregate itself if generation made it, and otherwise a copy that
	// generation may change: somebody else (a snapshot, a script's journal) still
	// reads this one, perhaps on another goroutine.
	own(generation uint64) aggregate
	// clone is an independent copy that the same generation owns: COPY.
	clone() aggregate
	// write writes the elements, in their order, for the kind's read.
	write(w *imageWriter)
}

// kind is the row of a type of aggregate.
type kind struct {
	name      string   // the word of TYPE, and of SCAN's option
	encodings []string // the answers of OBJECT ENCODING, one for each form
	image     byte     // the kind of form 0 in an image; the other forms follow it

	keepsEmpty bool // one without elements is stored: XDEL leaves the ids of a stream

	// read makes an aggregate of n elements, n > 0 unless it keepsEmpty, of what write has written. Its
	// elements are only as good as the reader's err says.
	read func(r *imageReader, n uint64, form int, generation uint64) aggregate
}

// kinds has a row for each type of aggregate. A row's places in the image are its
// own for ever: a new one takes those after the last.
var kinds = []*kind{hashKind, listKind, setKind, zsetKind, streamKind}

// kindOfImage finds the row and the form of a kind byte of an image; nil where it is
// no aggregate's.
func kindOfImage(b byte) (k *kind, form int) {
	for _, k := range kinds {
		if b >= k.image && int(b-k.image) < len(k.encodings) {
			return k, int(b - k.image)
		}
	}
	return nil, 0
}

// smallMax and smallValueMax bound the small forms, whatever the settings say: whoever
// looks for an element in one looks at all, and no setting may make that the work of
// millions, or of megabytes each.
const (
	smallMax      = 4096
	smallValueMax = 4096
)

// readAggregate reads an aggregate of a kind byte; nil only where it fails.
func readAggregate(r *imageReader, b byte, generation uint64) aggregate {
	k, form := kindOfImage(b)
	if k == nil {
		r.fail("a value of unknown kind")
		return nil
	}
	n := r.u64()
	if n == 0 && !k.keepsEmpty {
		r.fail("an empty " + k.name)
	}
	return k.read(r, n, form, generation)
}

// kindString is the kind of a string in an image; those of aggregates are in kinds.
const kindString = 0
