package value

// Aggregate is a value of many elements: everything except strings. Images, entries and most of keyspace use aggregates
// through this interface. A new type is a file with the type, and a row in Kinds; its commands are a file of keyspace.
//
// A stored aggregate is immutable; a change owns it first (Own). The order of its elements follows from the calls that
// made it, never from a Go map or a pointer, and an image keeps it.
type Aggregate interface {
	// Kind returns the row of its type.
	Kind() *Kind
	// Form returns the index of its encoding among those of its Kind.
	Form() int
	// Len returns the number of elements. An empty aggregate is not stored, unless its Kind says KeepsEmpty.
	Len() int
	// Size estimates its memory in bytes, equally on every node. It does not look at the elements.
	Size() int64
	// Own returns the aggregate itself if generation made it, and otherwise a copy that generation may change, because
	// a snapshot or a script's journal still reads this one, perhaps on another goroutine.
	Own(generation uint64) Aggregate
	// Clone returns an independent copy that the same generation owns: COPY.
	Clone() Aggregate
	// Write writes the elements, in their order, as the read function of its Kind reads them.
	Write(w *Writer)
}

// Kind is the row of a type of aggregate.
type Kind struct {
	Name      string   // the word of TYPE, and of SCAN's option
	Encodings []string // the answers of OBJECT ENCODING, one for each form
	Image     byte     // the kind of form 0 in an image; the other forms follow it

	KeepsEmpty bool // one without elements is stored: XDEL leaves the ids of a stream

	// read reads an aggregate of n elements that Write has written; n > 0 unless it KeepsEmpty. The elements are void
	// if the reader has an error.
	read func(r *Reader, n uint64, form int, generation uint64) Aggregate
}

// SmallMax (elements) and SmallValueMax (bytes) bound the small forms, whatever the settings say: a search looks at all
// elements, and no setting may make that the work of millions, or of megabytes each.
const (
	SmallMax      = 4096
	SmallValueMax = 4096
)

// CloneWork returns the work of a copy, of all of a small form or of some nodes of a tree.
func CloneWork(v Aggregate) int64 {
	if v.Len() > SmallMax {
		return CompareWork * SmallMax
	}
	return 160 * int64(v.Len())
}
