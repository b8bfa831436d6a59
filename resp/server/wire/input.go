package wire

import (
	"io"
	"strings"
	"unsafe"

	"github.com/tidwall/redcon"

	"lockd/resp"
)

// Limits bound the input of one client. Exceeding them is a protocol error.
type Limits struct {
	BulkMax  int  // bytes of one argument
	QueryMax int  // bytes of one command, with its framing
	Trusted  bool // the client is authenticated; otherwise Redis's smaller limits apply, too
}

// Input turns the bytes of a connection into commands. It is not safe for concurrent use.
type Input struct {
	guard  guard
	buf    []byte // buf[start:end] is read and not yet taken
	start  int
	end    int
	frames []frame
	words  [][]byte // scratch of the parser
	cmds   []resp.Args
}

// Fill reads once from r, and returns the number of bytes. It makes room first: it frees a large empty buffer, and
// doubles one that holds an unfinished command.
func (in *Input) Fill(r io.Reader) (int, error) {
	switch {
	case in.start == in.end && (cap(in.buf) > inputBytesKeep || in.buf == nil):
		in.start, in.end = 0, 0
		in.buf = make([]byte, inputBytesMin)
	case in.start == in.end && in.end == len(in.buf) && len(in.buf) < inputBytesKeep:
		in.start, in.end = 0, 0
		in.buf = make([]byte, 2*len(in.buf)) // the client sends more than fits
	case in.start == in.end:
		in.start, in.end = 0, 0
	case in.end == len(in.buf):
		in.makeRoom()
	}
	n, err := r.Read(in.buf[in.end:])
	in.end += n
	return n, err
}

func (in *Input) makeRoom() {
	rest := in.buf[in.start:in.end]
	if len(rest) > len(in.buf)/2 {
		in.buf = make([]byte, 2*len(in.buf))
	}
	copy(in.buf, rest)
	in.start, in.end = 0, len(rest)
}

// Take returns whole commands that have arrived: as many as one run may hold, but only one while the client is not
// trusted, because that one may be AUTH. The arguments of all of them are substrings of one string, made here; the
// list itself is valid until the next call. more is false if there was no whole command, not even an empty one.
// Commands before an error are returned with it.
func (in *Input) Take(lim Limits) (cmds []resp.Args, more bool, err error) {
	in.guard.lim = lim
	in.frames = in.frames[:0]
	size, args := 0, 0
	for len(in.frames) < PipelineCmdsMax && size < PipelineBytesMax {
		f, ok, failed := in.guard.next(in.buf[in.start+size : in.end])
		if err = failed; !ok {
			break
		}
		size += f.size
		args += f.args
		in.frames = append(in.frames, f)
		if !lim.Trusted && f.args > 0 {
			break
		}
	}
	text := string(in.buf[in.start : in.start+size])
	in.start += size
	cmds, failed := in.parse(text, args)
	if failed != nil {
		err = failed
	}
	return cmds, len(in.frames) > 0, err
}

// Pending returns the number of bytes that have arrived and were not taken yet.
func (in *Input) Pending() int { return in.end - in.start }

// parse parses the frames of text. The returned list is valid until the next call; the commands in it stay valid.
func (in *Input) parse(text string, args int) ([]resp.Args, error) {
	clear(in.cmds)
	in.cmds = in.cmds[:0]
	arena := make([]string, 0, args)
	for _, f := range in.frames {
		one := text[:f.size]
		text = text[f.size:]
		if f.args == 0 {
			continue
		}
		if one[0] != '*' {
			words, err := splitInline(strings.TrimSuffix(strings.TrimSuffix(one, "\n"), "\r"))
			if err != nil {
				return in.cmds, err
			}
			if len(words) > 0 {
				in.cmds = append(in.cmds, words)
			}
			continue
		}
		from := len(arena)
		var err error
		if arena, err = in.parseOne(arena, one); err != nil {
			return in.cmds, err
		}
		in.cmds = append(in.cmds, resp.Args(arena[from:len(arena):len(arena)]))
	}
	return in.cmds, nil
}

// Release frees the last pipeline, so that an idle connection does not keep its former input.
func (in *Input) Release() {
	clear(in.cmds)
	clear(in.words[:cap(in.words)])
}

// parseOne appends the arguments of one command, which has passed the guard, as substrings. redcon only reads its
// input.
func (in *Input) parseOne(arena []string, one string) ([]string, error) {
	packet := unsafe.Slice(unsafe.StringData(one), len(one))
	complete, words, _, rest, err := redcon.ReadNextCommand(packet, in.words)
	if err != nil || !complete || len(rest) > 0 || len(words) == 0 {
		return arena, errMultibulkLength // the guard and the parser disagree: trust neither
	}
	for _, w := range words {
		arena = append(arena, unsafe.String(unsafe.SliceData(w), len(w)))
	}
	if in.words = words; cap(words) > PipelineCmdsMax {
		in.words = nil
	}
	return arena, nil
}

// splitInline splits an inline command.
func splitInline(line string) ([]string, error) {
	words, ok := resp.SplitWords(line)
	if !ok {
		return nil, errUnbalancedQuotes
	}
	return words, nil
}
