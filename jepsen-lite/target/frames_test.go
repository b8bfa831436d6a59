package target

import (
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// helloOf returns a hello of a kind.
func helloOf(kind byte) []byte {
	body := `{"ID":"a"}`
	b := append([]byte(helloMagic), 7, kind)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(body))), body...)
}

// call returns a message of a calls connection.
func call(kind string, id uint64, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(9+len(body)))
	b = append(b, callKinds[kind])
	return append(binary.BigEndian.AppendUint64(b, id), body...)
}

// appends returns a request of a log connection with some entries. Its commit index identifies it.
func appends(commit uint64, entries uint64, more string) []byte {
	var b []byte
	for _, n := range []uint64{3, 300, 5, 300, commit} {
		b = binary.AppendUvarint(b, n)
	}
	b = append(b, "\x02id\x04addr"...)
	b = append(binary.AppendUvarint(b, entries), more...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func answered(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

// Raft's own messages as its library writes them, in what matters.
var (
	voteAsked  = "\x01\x82\xa9RPCHeader\x81\xafProtocolVersion\x03\xa4Term\xcd\x01\x00"
	preAsked   = "\x04\x81\xa4Term\x05"
	timeoutNow = "\x03\x82\xa9RPCHeader\xc0\xa1x\xcb\x00\x00\x00\x00\x00\x00\x00\x00"
	snapshot   = "\x02\x83\xa4Size\xcd\x01\x2c\xa5Peers\xc4\x03abc\xa4Term\xdc\x00\x02\x01\x02" + strings.Repeat("s", 300)
	raftSaid   = "\xa0\x82\xa4Term\x05\xa7Granted\xc3"
)

// both makes the streams of both directions of one connection, after their hellos.
func both(t *testing.T, n *Net, kind byte) (asks, answers *stream) {
	t.Helper()
	tk := newTalk(n, "a", "b", helloOf(kind))
	asks, answers = tk.stream(true), tk.stream(false)
	for _, s := range []*stream{asks, answers} {
		if out := fed(s, helloOf('a'), 1000); out != string(helloOf('a')) {
			t.Fatalf("hello: %q", out)
		}
	}
	return asks, answers
}

// fed feeds bytes in steps and returns what is forwarded, with (hold) before what is held, and ! where the connection
// breaks.
func fed(s *stream, data []byte, step int) (all string) {
	for part := range slices.Chunk(data, step) {
		for _, p := range s.feed(part) {
			if p.hold > 0 {
				all += fmt.Sprintf("(%s)", p.hold)
			}
			if all += string(p.data); p.last {
				all += "!"
			}
		}
	}
	return all
}

// A stream forwards all bytes unchanged, in whatever pieces they arrive, and also bytes that it cannot read.
func TestStreamPasses(t *testing.T) {
	for _, step := range []int{1, 3, 7, 100, 1 << 20} {
		for kind, said := range map[byte][2]string{
			'c': {string(call(MsgForward, 1, "set")) + string(call(MsgAsk, 2, "")) + string(call(MsgPing, 3, "")), string(call(MsgStatus, 2, "x")) + string(call(MsgAnswer, 1, "ok")) + string(call(MsgBye, 3, ""))},
			'l': {string(appends(1, 0, "")) + string(appends(2, 300, "entry")), string(answered("one")) + string(answered(""))},
			'r': {voteAsked + preAsked + snapshot + timeoutNow + snapshot, raftSaid + raftSaid + "\xa3bad\xc0"},
			'x': {"whatever", "else"},
		} {
			asks, answers := both(t, NewNet(), kind)
			if got := fed(asks, []byte(said[0]), step); got != said[0] || asks.blind != (kind == 'x') || len(asks.buf) > 0 {
				t.Errorf("%c asks in steps of %d: %q, blind %v, kept %q", kind, step, got, asks.blind, asks.buf)
			}
			if got := fed(answers, []byte(said[1]), step); got != said[1] || answers.blind != (kind == 'x') || len(answers.buf) > 0 {
				t.Errorf("%c answers in steps of %d: %q, blind %v, kept %q", kind, step, got, answers.blind, answers.buf)
			}
		}
		n := NewNet()
		asks, _ := both(t, n, 'c')
		if junk := strings.Repeat("\xff", 40); fed(asks, []byte(junk), step) != junk || !asks.blind || n.Unread() != 1 {
			t.Errorf("junk in steps of %d, %d unread", step, n.Unread())
		}
	}
}

// One message of a kind is caught, after the skipped ones, and no other; the rest of the connection passes.
func TestCatch(t *testing.T) {
	one, two, three := string(appends(1, 1, "e")), string(appends(2, 1, "e")), string(appends(3, 1, "e"))
	beat := string(appends(0, 0, ""))
	sets := string(call(MsgForward, 1, "set")) + string(call(MsgForward, 2, "set")) + string(call(MsgPing, 3, ""))
	pong := string(call(MsgPong, 3, ""))
	first, second := string(call(MsgAnswer, 1, "ok")), string(call(MsgAnswer, 2, "ok"))
	for name, c := range map[string]struct {
		catch       Catch
		kind        byte
		said, heard [2]string // what each side says, and what goes on of it
	}{
		"swallow the second": {Catch{Kind: MsgAppend, Skip: 1, Act: Swallow}, 'l', [2]string{beat + one + two + three, "\x00\x00\x00\x01b\x00\x00\x00\x011\x00\x00\x00\x013"}, [2]string{beat + one + three, "\x00\x00\x00\x01b\x00\x00\x00\x011\x00\x00\x00\x013"}},
		"its answer":         {Catch{Kind: MsgAppend, Skip: 1, Answer: true, Act: Swallow}, 'l', [2]string{one + two + three, "\x00\x00\x00\x011\x00\x00\x00\x012\x00\x00\x00\x013"}, [2]string{one + two + three, "\x00\x00\x00\x011\x00\x00\x00\x013"}},
		"twice":              {Catch{Kind: MsgAppend, Act: Double}, 'l', [2]string{one + two, "\x00\x00\x00\x011\x00\x00\x00\x01x\x00\x00\x00\x012"}, [2]string{one + one + two, "\x00\x00\x00\x011\x00\x00\x00\x012"}},
		"hold a heartbeat":   {Catch{Kind: MsgHeartbeat, Act: Hold, Hold: time.Second}, 'l', [2]string{one + beat + two, ""}, [2]string{one + "(1s)" + beat + two, ""}},
		"break":              {Catch{Kind: MsgAppend, Act: Swallow, Break: true}, 'l', [2]string{beat + one, ""}, [2]string{beat + "!", ""}},
		"one vote":           {Catch{Kind: MsgVote, Act: Swallow}, 'r', [2]string{preAsked + voteAsked + voteAsked, raftSaid}, [2]string{preAsked + voteAsked, raftSaid}},
		"a snapshot":         {Catch{Kind: MsgInstall, Act: Swallow}, 'r', [2]string{snapshot + voteAsked, raftSaid}, [2]string{voteAsked, raftSaid}},
		"not twice":          {Catch{Kind: MsgInstall, Act: Double}, 'r', [2]string{snapshot, ""}, [2]string{snapshot, ""}},
		"an answer to a set": {Catch{Kind: MsgForward, Answer: true, Act: Swallow}, 'c', [2]string{sets, second + pong + first}, [2]string{sets, second + pong}},
		"any answer":         {Catch{Kind: MsgAnswer, Act: Swallow}, 'c', [2]string{sets, pong + second + first}, [2]string{sets, pong + first}},
		"every answer":       {Catch{Kind: MsgAnswer, Skip: 1, Each: true, Act: Swallow}, 'c', [2]string{sets, first + pong + second + second}, [2]string{sets, first + pong}},
		"another node":       {Catch{Node: "c", Kind: MsgAnswer, Act: Swallow}, 'c', [2]string{sets, first}, [2]string{sets, first}},
	} {
		for _, step := range []int{2, 1 << 20} {
			n := NewNet()
			if c.catch.Node == "" {
				c.catch.Node = "b"
			}
			caught := n.Catch(c.catch)
			asks, answers := both(t, n, c.kind)
			for i, s := range []*stream{asks, answers} {
				if got := fed(s, []byte(c.said[i]), step); got != c.heard[i] {
					t.Errorf("%s, side %d, in steps of %d: %q, want %q", name, i, step, got, c.heard[i])
				}
			}
			if want := c.said != c.heard; caught.Cancel() != want || n.waiting.Load() != 0 {
				t.Errorf("%s: struck %v, %d wait", name, !want, n.waiting.Load())
			}
		}
	}
}

// The proxies know every kind of message that nodes send on calls connections. A kind that they did not know would make
// the stream blind, and runs would pass without testing anything.
func TestKindsOfCalls(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../cluster/peer/frame.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string]byte{}
	ast.Inspect(file, func(n ast.Node) bool {
		block, ok := n.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			return true
		}
		first, ok := block.Specs[0].(*ast.ValueSpec).Type.(*ast.Ident)
		if !ok || first.Name != "frameKind" {
			return false
		}
		for i, spec := range block.Specs {
			name := spec.(*ast.ValueSpec).Names[0].Name
			sent[strings.ToLower(strings.TrimPrefix(name, "frame"))] = byte(1 + i)
		}
		return false
	})
	if len(sent) == 0 || !maps.Equal(sent, callKinds) {
		t.Errorf("nodes send %v, the proxies know %v", sent, callKinds)
	}
}
