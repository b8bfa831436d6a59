package value

// Aggregate is a value of many elements: everything that is not a string. It is all
// that images, entries and most of keyspace know of one. A new type is a file with the
// type, and a row in Kinds; its commands are a file of keyspace.
//
// What is stored is immutable for whoever holds it; to change one is to own it first. The
// order in which an aggregate visits its elements is a function of what it
// holds and how it came to, never of a Go map or a pointer, and an image keeps it.
type Aggregate interface {
	// Kind is its row.
	Kind() *Kind
	// Form says which of the row's encodings it has now.
	Form() int
	// Len is the number of its elements. One without any is never stored, unless its
	// row says so.
	Len() int
	// Size estimates the memory it takes, in bytes: the same on every node, so it cannot
	// be measured. It does not look at the elements.
	Size() int64
	// Own is the aggregate itself if generation made it, and otherwise a copy that
	// generation may change: somebody else (a snapshot, a script's journal) still
	// reads this one, perhaps on another goroutine.
	Own(generation uint64) Aggregate
	// Clone is an independent copy that the same generation owns: COPY.
	Clone() Aggregate
	// Write writes the elements, in their order, for the kind's read.
	Write(w *Writer)
}

// Kind is the row of a type of aggregate.
type Kind struct {
	Name      string   // the word of TYPE, and of SCAN's option
	Encodings []string // the answers of OBJECT ENCODING, one for each form
	Image     byte     // the kind of form 0 in an image; the other forms follow it

	KeepsEmpty bool // one without elements is stored: XDEL leaves the ids of a stream

	// read makes an aggregate of n elements, n > 0 unless it KeepsEmpty, of what Write has written. Its
	// elements are only as good as the reader's Err says.
	read func(r *Reader, n uint64, form int, generation uint64) Aggregate
}

// SmallMax (elements) and SmallValueMax (bytes) bound the small forms, whatever the settings say: whoever
// looks for an element in one looks at all, and no setting may make that the work of
// millions, or of megabytes each.
const (
	SmallMax      = 4096
	SmallValueMax = 4096
)

// CloneWork is the work of a copy: that of a small form whole, or of some nodes of a tree.
func CloneWork(v Aggregate) int64 {
	if v.Len() > SmallMax {
		return CompareWork * SmallMax
	}
	return 160 * int64(v.Len())
}
