package wire

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"lockd/resp"
)

// pieces is a client that sends data, cut at pseudo-random places, and hangs up.
type pieces struct {
	data []byte
	seed uint64
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.data) == 0 {
		return 0, io.EOF
	}
	p.seed = p.seed*6364136223846793005 + 1442695040888963407
	n := 1 + int(p.seed>>59)
	if p.seed>>40&7 == 0 {
		n *= 40
	}
	n = copy(b, p.data[:min(n, len(p.data))])
	p.data = p.data[n:]
	return n, nil
}

// The guard finds the same commands however the bytes are cut, agrees with a
// plain reading of the protocol, and passes nothing on which redcon panics.
func FuzzGuard(f *testing.F) {
	const bulkMax = 8 << 20
	for _, seed := range []string{
		"*9000000000000000000\r\n", "*1\r\n$-2\r\n", "*0\r\n*-1\r\nPING\r\n", "\r\n\n \r\nPING\n",
		"*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n", "ECHO \"\\x41\" 'b\\'c'\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$3\r\nxyz\r\n$", "*1\r\n$4097\r\n", "*11\r\n$4\r\nPING\r\n",
	} {
		f.Add([]byte(seed), uint64(1))
	}
	f.Fuzz(func(t *testing.T, data []byte, seed uint64) {
		want, failed := reference(data, bulkMax)
		var in Input
		client := &pieces{data, seed}
		var got []resp.Args
		var err error
		for err == nil {
			if _, readErr := in.Fill(client); readErr != nil {
				break
			}
			var cmds []resp.Args
			for more := true; more && err == nil; {
				cmds, more, err = in.Take(Limits{BulkMax: bulkMax, QueryMax: 1 << 30, Trusted: true})
				got = append(got, slices.Clone(cmds)...)
			}
		}
		if (err != nil) != failed {
			t.Fatalf("guard says %v, reference %v", err, failed)
		}
		if !slices.EqualFunc(got, want, func(a, b resp.Args) bool { return slices.Equal(a, b) }) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// reference parses data the simple way: the commands, and whether what follows
// them is an error of the protocol.
func reference(data []byte, bulkMax int) (cmds []resp.Args, failed bool) {
	for {
		args, rest, ok, bad := referenceOne(data, bulkMax)
		if bad || !ok {
			return cmds, bad
		}
		if len(args) > 0 {
			cmds = append(cmds, args)
		}
		data = rest
	}
}

func referenceOne(data []byte, bulkMax int) (args resp.Args, rest []byte, ok, bad bool) {
	if len(data) == 0 {
		return nil, nil, false, false
	}
	line, rest, ok := bytes.Cut(data, []byte("\n"))
	if len(line)+1 > inlineBytesMax {
		return nil, nil, false, true
	}
	if !ok {
		return nil, nil, false, false
	}
	if data[0] != '*' {
		words, err := splitInline(strings.TrimSuffix(string(line), "\r"))
		return words, rest, true, err != nil
	}
	n, good := referenceNumber(line)
	if !good || n > multibulkMax {
		return nil, nil, false, true
	}
	for ; n > 0; n-- {
		line, rest, ok = bytes.Cut(rest, []byte("\n"))
		if !ok {
			return nil, nil, false, len(line) > inlineBytesMax
		}
		size, good := referenceNumber(line)
		if len(line) == 0 || line[0] != '$' || !good || size < 0 || size > bulkMax {
			return nil, nil, false, true
		}
		if len(rest) < size+2 {
			return nil, nil, false, false
		}
		if string(rest[size:size+2]) != "\r\n" {
			return nil, nil, false, true
		}
		args = append(args, string(rest[:size]))
		rest = rest[size+2:]
	}
	return args, rest, true, false
}

func referenceNumber(line []byte) (int, bool) {
	if len(line) < 2 || line[len(line)-1] != '\r' {
		return 0, false
	}
	n, ok := resp.ParseInt(string(line[1 : len(line)-1]))
	return int(n), ok && len(line) < 21
}

// The input buffer grows no further than a command of the largest size needs: many commands
// reuse it, and one that is too large is refused in time.
func TestInputBufferIsBounded(t *testing.T) {
	lim := Limits{BulkMax: 4096, QueryMax: 65536, Trusted: true}
	arg := "$4096\r\n" + strings.Repeat("x", 4096) + "\r\n"
	for _, tt := range []struct {
		name, sent string
		cmds       int
		err        error
	}{
		{"many commands", strings.Repeat("*15\r\n"+strings.Repeat(arg, 15), 20), 20, nil},
		{"a large one", "*1000\r\n" + strings.Repeat(arg, 1000), 0, errBigQuery},
	} {
		var in Input
		var err error
		got := 0
		for r := strings.NewReader(tt.sent); r.Len() > 0 && err == nil; {
			in.Fill(r)
			for more := true; more && err == nil; {
				var cmds []resp.Args
				cmds, more, err = in.Take(lim)
				got += len(cmds)
			}
		}
		if got != tt.cmds || err != tt.err || cap(in.buf) > 4*lim.QueryMax {
			t.Errorf("%s: %d commands, error %v, and the buffer has grown to %d bytes", tt.name, got, err, cap(in.buf))
		}
	}
}
