package client

import (
	"bufio"
	"errors"
	"io"
	"math"
	"math/big"
	"strconv"

	"lockd/resp"
)

// Limits of a server's replies.
const (
	lineMax     = 64 << 10  // of a line: a status, an error, a length
	replyMax    = 256 << 20 // of a reply, itemBytes for each item included
	itemBytes   = 64        // the cost of an item beside its text
	nestingMax  = 32
	bulkAtOnce  = 1 << 20 // bytes allocated before they have arrived
	itemsAtOnce = 1 << 10
)

var (
	errProtocol = errors.New("the server does not speak Redis's protocol")
	errTooLarge = errors.New("the reply is too large")
)

// reader reads one reply of RESP3 or RESP2.
type reader struct {
	in   *bufio.Reader
	left int64 // of replyMax
}

func (r *reader) spend(bytes int64) error {
	if r.left -= bytes; r.left < 0 {
		return errTooLarge
	}
	return nil
}

func (r *reader) reply(depth int) (resp.Reply, error) {
	line, err := r.line()
	if err != nil {
		return resp.Reply{}, err
	}
	if err := r.spend(itemBytes + int64(len(line))); err != nil {
		return resp.Reply{}, err
	}
	mark, text := line[0], line[1:]
	switch mark {
	case '+':
		return resp.Status(text), nil
	case '-':
		return resp.Err(text), nil
	case '(':
		n, ok := new(big.Int).SetString(text, 10)
		if !ok {
			return resp.Reply{}, errProtocol
		}
		return resp.BigNumber(n.String()), nil
	case '_':
		return resp.Nil(), nil
	case '#':
		if text != "t" && text != "f" {
			return resp.Reply{}, errProtocol
		}
		return resp.Bool(text == "t"), nil
	case ',':
		f, err := strconv.ParseFloat(text, 64)
		if err != nil && !math.IsInf(f, 0) {
			return resp.Reply{}, errProtocol
		}
		return resp.Double(f), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return resp.Reply{}, errProtocol
	}
	switch mark {
	case ':':
		return resp.Int(n), nil
	case '$', '=':
		return r.bulk(mark, n)
	case '*', '%', '~', '>':
		return r.items(mark, n, depth)
	}
	return resp.Reply{}, errProtocol
}

// line reads a line with its type byte.
func (r *reader) line() (string, error) {
	line, err := r.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", errTooLarge
	case err != nil:
		return "", err
	case len(line) < 3 || line[len(line)-2] != '\r':
		return "", errProtocol
	}
	return string(line[:len(line)-2]), nil
}

func (r *reader) bulk(mark byte, n int64) (resp.Reply, error) {
	const format = len("txt:") // before a verbatim text
	switch {
	case n == -1 && mark == '$':
		return resp.Nil(), nil
	case n < 0 || n > replyMax || mark == '=' && n < int64(format):
		return resp.Reply{}, errProtocol
	}
	if err := r.spend(n); err != nil {
		return resp.Reply{}, err
	}
	text := make([]byte, 0, min(n+2, bulkAtOnce))
	for int64(len(text)) < n+2 {
		part := min(n+2-int64(len(text)), bulkAtOnce)
		from := len(text)
		text = append(text, make([]byte, part)...)
		if _, err := io.ReadFull(r.in, text[from:]); err != nil {
			return resp.Reply{}, err
		}
	}
	if text[n] != '\r' || text[n+1] != '\n' {
		return resp.Reply{}, errProtocol
	}
	if mark == '=' {
		return resp.Verbatim(string(text[format:n])), nil
	}
	return resp.Bulk(string(text[:n])), nil
}

func (r *reader) items(mark byte, n int64, depth int) (resp.Reply, error) {
	switch {
	case n == -1 && mark == '*':
		return resp.NilArray(), nil
	case n < 0 || n > replyMax || depth == nestingMax:
		return resp.Reply{}, errProtocol
	}
	if mark == '%' {
		n *= 2
	}
	elems := make([]resp.Reply, 0, min(n, itemsAtOnce))
	for range n {
		e, err := r.reply(depth + 1)
		if err != nil {
			return resp.Reply{}, err
		}
		elems = append(elems, e)
	}
	switch mark {
	case '%':
		return resp.Map(elems...), nil
	case '~':
		return resp.Set(elems...), nil
	case '>':
		return resp.Push(elems...), nil
	}
	return resp.Array(elems...), nil
}
