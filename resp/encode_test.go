package resp

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
)

// Every kind of reply has exactly these bytes in RESP2 and in RESP3.
func TestAppendTo(t *testing.T) {
	for _, c := range []struct {
		name   string
		reply  Reply
		v2, v3 string
	}{
		{"none", Reply{}, "", ""},
		{"ok", OK(), "+OK\r\n", "+OK\r\n"},
		{"status", Status("PONG"), "+PONG\r\n", "+PONG\r\n"},
		{"status with line break", Status("a\r\nb"), "+a  b\r\n", "+a  b\r\n"},
		{"error", Err(ErrSyntax), "-ERR syntax error\r\n", "-ERR syntax error\r\n"},
		{"error with line break", Err("ERR a\n+OK\r"), "-ERR a +OK \r\n", "-ERR a +OK \r\n"},
		{"formatted error", Errf("ERR %d of %s", 2, "x"), "-ERR 2 of x\r\n", "-ERR 2 of x\r\n"},
		{"int", Int(7), ":7\r\n", ":7\r\n"},
		{"least int", Int(math.MinInt64), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"},
		{"bulk", Bulk("hello"), "$5\r\nhello\r\n", "$5\r\nhello\r\n"},
		{"bulk of any bytes", Bulk("\r\n\x00\xff"), "$4\r\n\r\n\x00\xff\r\n", "$4\r\n\r\n\x00\xff\r\n"},
		{"empty bulk", Bulk(""), "$0\r\n\r\n", "$0\r\n\r\n"},
		{"nil", Nil(), "$-1\r\n", "_\r\n"},
		{"nil array", NilArray(), "*-1\r\n", "_\r\n"},
		{"array", Array(Int(1), Bulk("a"), Nil()), "*3\r\n:1\r\n$1\r\na\r\n$-1\r\n", "*3\r\n:1\r\n$1\r\na\r\n_\r\n"},
		{"empty array", Array(), "*0\r\n", "*0\r\n"},
		{"bulks", Bulks("a", ""), "*2\r\n$1\r\na\r\n$0\r\n\r\n", "*2\r\n$1\r\na\r\n$0\r\n\r\n"},
		{"map", Map(Bulk("k"), Int(1)), "*2\r\n$1\r\nk\r\n:1\r\n", "%1\r\n$1\r\nk\r\n:1\r\n"},
		{"empty map", Map(), "*0\r\n", "%0\r\n"},
		{"set", Set(Int(1), Int(2)), "*2\r\n:1\r\n:2\r\n", "~2\r\n:1\r\n:2\r\n"},
		{"push", Push(Bulk("message"), Int(1)), "*2\r\n$7\r\nmessage\r\n:1\r\n", ">2\r\n$7\r\nmessage\r\n:1\r\n"},
		{"pairs", Pairs(Bulk("f"), Bulk("v"), Bulk("g"), Nil()),
			"*4\r\n$1\r\nf\r\n$1\r\nv\r\n$1\r\ng\r\n$-1\r\n",
			"*2\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n*2\r\n$1\r\ng\r\n_\r\n"},
		{"no pairs", Pairs(), "*0\r\n", "*0\r\n"},
		{"map of pairs", PairMap(Bulk("f"), Array(Int(1)), Bulk("g"), Nil()),
			"*2\r\n*2\r\n$1\r\nf\r\n*1\r\n:1\r\n*2\r\n$1\r\ng\r\n$-1\r\n", "%2\r\n$1\r\nf\r\n*1\r\n:1\r\n$1\r\ng\r\n_\r\n"},
		{"double", Double(1.5), "$3\r\n1.5\r\n", ",1.5\r\n"},
		{"infinity", Double(math.Inf(-1)), "$4\r\n-inf\r\n", ",-inf\r\n"},
		{"true", Bool(true), ":1\r\n", "#t\r\n"},
		{"false", Bool(false), ":0\r\n", "#f\r\n"},
		{"big number", BigNumber("-12345678901234567890"), "$21\r\n-12345678901234567890\r\n", "(-12345678901234567890\r\n"},
		{"verbatim", Verbatim("a\r\nb"), "$4\r\na\r\nb\r\n", "=8\r\ntxt:a\r\nb\r\n"},
		{"nested", Array(Map(Bulk("k"), Set(Bool(true))), Double(2)),
			"*2\r\n*2\r\n$1\r\nk\r\n*1\r\n:1\r\n$1\r\n2\r\n",
			"*2\r\n%1\r\n$1\r\nk\r\n~1\r\n#t\r\n,2\r\n"},
	} {
		if got := string(c.reply.AppendTo([]byte("x"), 2)); got != "x"+c.v2 {
			t.Errorf("%s in RESP2:\n got %q\nwant %q", c.name, got, "x"+c.v2)
		}
		if got := string(c.reply.AppendTo([]byte("x"), 3)); got != "x"+c.v3 {
			t.Errorf("%s in RESP3:\n got %q\nwant %q", c.name, got, "x"+c.v3)
		}
	}
}

// IsErr and IsNil distinguish errors and both nulls from other replies.
func TestReplyQuestions(t *testing.T) {
	for _, c := range []struct {
		reply      Reply
		err, isNil bool
	}{
		{Err("ERR x"), true, false}, {Nil(), false, true}, {NilArray(), false, true},
		{Bulk(""), false, false}, {Array(), false, false}, {Reply{}, false, false},
	} {
		if c.reply.IsErr() != c.err || c.reply.IsNil() != c.isNil {
			t.Errorf("%+v: IsErr %v, IsNil %v", c.reply, c.reply.IsErr(), c.reply.IsNil())
		}
	}
	if got := Double(-0.25).Float(); got != -0.25 {
		t.Errorf("Double(-0.25).Float() = %v", got)
	}
}

// Doubles are written as Redis 7.2's d2string writes them.
func TestFormatDouble(t *testing.T) {
	for _, c := range []struct {
		f    float64
		want string
	}{
		{0, "0"}, {math.Copysign(0, -1), "-0"}, {1, "1"}, {-1, "-1"}, {1.5, "1.5"}, {0.1, "0.1"}, {-0.001, "-0.001"},
		{1e17, "100000000000000000"}, {1e18, "1000000000000000000"}, {1 << 62, "4611686018427387904"},
		{1e19, "1e+19"}, {1.25e20, "1.25e+20"}, {-1e100, "-1e+100"}, {12345678901234567890, "12345678901234567000"},
		{1e-4, "0.0001"}, {1e-6, "0.000001"}, {1e-7, "1e-7"}, {1.5e-7, "1.5e-7"}, {-1.25e-10, "-1.25e-10"},
		{5e-324, "5e-324"}, {math.MaxFloat64, "1.7976931348623157e+308"}, {3.141592653589793, "3.141592653589793"},
		{1234567.125, "1234567.125"}, {0.30000000000000004, "0.30000000000000004"}, {math.Pi * 1e5, "3.1415926535897935e+5"}, {math.Pi * 1e3, "3141.5926535897934"},
		{math.Inf(1), "inf"}, {math.Inf(-1), "-inf"}, {math.NaN(), "nan"},
	} {
		got := FormatDouble(c.f)
		if got != c.want {
			t.Errorf("FormatDouble(%v) = %q, want %q", c.f, got, c.want)
		}
		if back, err := strconv.ParseFloat(got, 64); err != nil || (back != c.f && !math.IsNaN(c.f)) {
			t.Errorf("FormatDouble(%v) = %q reads back as %v", c.f, got, back)
		}
	}
}

// A command is written as clients send it.
func TestAppendCommand(t *testing.T) {
	got := string(AppendCommand(nil, "SET", "k", "\r\n"))
	if want := "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\n\r\n\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A reply of an unknown kind is a programming error and is not sent as something else.
func TestAppendToUnknownKind(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Reply{Kind: 200}.AppendTo(nil, 2)
}

// parseRESP reads exactly one RESP value, strictly, and returns what follows it.
func parseRESP(s string, proto int) (rest string, err error) {
	line, rest, ok := strings.Cut(s, "\r\n")
	if !ok || line == "" || strings.ContainsAny(line, "\r\n") {
		return "", errors.New("no line")
	}
	mark, text := line[0], line[1:]
	if proto < 3 && !strings.ContainsRune("+-:$*", rune(mark)) {
		return "", errors.New("no type of RESP2: " + line)
	}
	switch mark {
	case '+', '-':
		return rest, nil
	case ':':
		_, err = strconv.ParseInt(text, 10, 64)
		return rest, err
	case '(':
		return rest, nil
	case ',':
		_, err = strconv.ParseFloat(text, 64)
		return rest, err
	case '#':
		if text != "t" && text != "f" {
			return "", errors.New("bad boolean")
		}
		return rest, nil
	case '_':
		if text != "" || proto < 3 {
			return "", errors.New("bad null")
		}
		return rest, nil
	case '$', '=':
		return parseBulk(text, rest, proto)
	case '*', '%', '~', '>':
		return parseElems(mark, text, rest, proto)
	}
	return "", errors.New("unknown type " + line)
}

func parseBulk(text, rest string, proto int) (string, error) {
	if text == "-1" && proto < 3 {
		return rest, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || len(rest) < int(n)+2 || rest[n:n+2] != "\r\n" {
		return "", errors.New("bad bulk")
	}
	return rest[n+2:], nil
}

func parseElems(mark byte, text, rest string, proto int) (string, error) {
	if text == "-1" && mark == '*' && proto < 3 {
		return rest, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if mark == '%' {
		n *= 2
	}
	for ; err == nil && n > 0; n-- {
		rest, err = parseRESP(rest, proto)
	}
	return rest, err
}

// Whatever a reply holds, its bytes are exactly one RESP value in both protocols.
func FuzzReplyAppend(f *testing.F) {
	for _, r := range sampleReplies() {
		f.Add(AppendResult(nil, Result{Replies: []Reply{r}}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		res, _, err := decodeResult(b)
		if err != nil {
			return
		}
		for _, r := range res.Replies {
			for proto := 2; proto <= 3; proto++ {
				out := string(r.AppendTo(nil, proto))
				if r.Kind == KindNone && out == "" {
					continue
				}
				if rest, err := parseRESP(out, proto); err != nil || rest != "" {
					t.Fatalf("RESP%d %q: %v, left over %q", proto, out, err, rest)
				}
			}
		}
	})
}
