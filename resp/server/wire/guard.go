package wire

import "bytes"

// protocolError is an error of the framing. The start of the next command is lost, so the session answers the error
// and closes.
type protocolError string

func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// The protocol errors of Redis.
const (
	errMultibulkLength       protocolError = "invalid multibulk length"
	errBulkLength            protocolError = "invalid bulk length"
	errUnauthMultibulkLength protocolError = "unauthenticated multibulk length"
	errUnauthBulkLength      protocolError = "unauthenticated bulk length"
	errBigCountLine          protocolError = "too big mbulk count string"
	errBigBulkLine           protocolError = "too big bulk count string"
	errBigInline             protocolError = "too big inline request"
	errUnbalancedQuotes      protocolError = "unbalanced quotes in request"
	errBigQuery              protocolError = "too big query" // ours: Redis closes without a word
)

// frame is one whole command in the input.
type frame struct {
	size int // bytes
	args int // announced arguments; 0: nothing to run ("*0", an empty line)
}

// guard finds the ends of commands, and refuses input that must not reach the parser: redcon v1.6.2 spins on a huge
// count and panics on a negative length. It looks at each byte of a header once and skips bodies, so a command that
// arrives byte by byte costs no more than one that arrives whole.
type guard struct {
	at      int  // bytes of the present command looked at; may lie past the input
	line    int  // start of the present header line
	args    int  // arguments announced
	left    int  // arguments still to come
	counted bool // the header "*N" is read
	lim     Limits
}

// next returns the first whole command of buf, which begins where the last one ended. ok is false if more bytes are
// needed: call again with the same bytes and more.
func (g *guard) next(buf []byte) (f frame, ok bool, err error) {
	if len(buf) == 0 {
		return frame{}, false, nil
	}
	if buf[0] == '*' {
		ok, err = g.multibulk(buf)
	} else {
		ok, err = g.inline(buf)
	}
	if err == nil && !ok && (g.at > g.lim.QueryMax || len(buf) > g.lim.QueryMax) {
		err = errBigQuery
	}
	if !ok || err != nil {
		return frame{}, false, err
	}
	f = frame{size: g.at, args: g.args}
	g.at, g.line, g.args, g.left, g.counted = 0, 0, 0, 0, false
	return f, true, nil
}

// inline looks for the end of a line. Its arguments are counted later; 1 means that there may be some.
func (g *guard) inline(buf []byte) (bool, error) {
	i := bytes.IndexByte(buf[g.at:], '\n')
	if i < 0 {
		g.at = len(buf)
	} else {
		g.at += i + 1
	}
	if g.at > inlineBytesMax {
		return false, errBigInline
	}
	g.args = 1
	return i >= 0, nil
}

func (g *guard) multibulk(buf []byte) (bool, error) {
	if !g.counted {
		n, ok, err := g.header(buf, errBigCountLine, errMultibulkLength)
		if !ok {
			return false, err
		}
		if err := g.checkCount(n); err != nil {
			return false, err
		}
		g.counted = true
		g.args = max(0, int(n))
		g.left = g.args
	}
	for ; g.left > 0; g.left-- {
		if ok, err := g.bulk(buf); !ok {
			return false, err
		}
	}
	return g.at <= len(buf), g.checkBreak(buf)
}

func (g *guard) checkCount(n int64) error {
	if n > multibulkMax {
		return errMultibulkLength
	}
	if n > unauthMultibulkMax && !g.lim.Trusted {
		return errUnauthMultibulkLength
	}
	return nil
}

// bulk reads one "$N" and skips its body, past the end of buf if need be.
func (g *guard) bulk(buf []byte) (bool, error) {
	if g.line > len(buf) {
		return false, nil
	}
	if err := g.checkBreak(buf); err != nil {
		return false, err
	}
	mark := g.line
	n, ok, err := g.header(buf, errBigBulkLine, errBulkLength)
	if ok && buf[mark] != '$' || err == errBulkLength && buf[mark] != '$' {
		return false, protocolError("expected '$', got '" + string(buf[mark:mark+1]) + "'")
	}
	if !ok {
		return false, err
	}
	if n < 0 || n > int64(g.lim.BulkMax) {
		return false, errBulkLength
	}
	if n > unauthBulkBytesMax && !g.lim.Trusted {
		return false, errUnauthBulkLength
	}
	g.at += int(n) + 2
	g.line = g.at
	return true, nil
}

// checkBreak checks that the body before g.line ends in a line break. Redis accepts any two bytes there; redcon does
// not, nor must lockd: otherwise the data of a client that miscounts would run as commands.
func (g *guard) checkBreak(buf []byte) error {
	if g.args == g.left || g.line > len(buf) {
		return nil
	}
	if buf[g.line-2] != '\r' || buf[g.line-1] != '\n' {
		return errBulkLength
	}
	return nil
}

// header reads the number of the line that begins at g.line, after its mark.
func (g *guard) header(buf []byte, tooLong, malformed protocolError) (int64, bool, error) {
	i := bytes.IndexByte(buf[g.at:], '\n')
	if i < 0 {
		g.at = len(buf)
		if g.at-g.line > inlineBytesMax {
			return 0, false, tooLong
		}
		return 0, false, nil
	}
	end := g.at + i
	text := buf[g.line:end]
	if len(text) < 2 || text[len(text)-1] != '\r' {
		return 0, false, malformed
	}
	n, ok := parseLength(text[1 : len(text)-1])
	if !ok {
		return 0, false, malformed
	}
	g.at = end + 1
	g.line = g.at
	return n, true, nil
}

// parseLength reads an integer as Redis's string2ll does: no plus sign, no leading zeros. More than 18 digits exceed
// every limit.
func parseLength(text []byte) (int64, bool) {
	digits := text
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	if len(digits) == 0 || len(digits) > 18 || (digits[0] == '0' && len(text) > 1) {
		return 0, false
	}
	var n int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if len(digits) < len(text) {
		n = -n
	}
	return n, true
}
