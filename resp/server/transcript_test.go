package server

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockd/resp"
)

// A transcript is the traffic of connections, byte for byte. Each line is one of:
//
//	# text        what the next lines prove
//	> text        send text and a line break
//	$ word word   send the words as an array of bulk strings
//	< text        expect text and a line break, exactly
//	~ regexp      expect a line that matches
//	closed        expect that the server closes
//	requests 3 1  expect that the server asked its backend for 3 commands at once, then for 1, since the last such line
//	password p    (first) the server has requirepass p
//	profile p     (first) the server has that profile; "cluster host:port" redirects there
//	not redis: reason    (first) the transcript is not replayed against Redis
//
// A connection other than the first is named before the sign: "b> PING". {id b}
// in a text stands for its id. Texts have Go's escapes; a backslash at the end leaves the
// line break out.
type transcript struct {
	name     string
	password string
	profile  *Profile
	redirect func(bool) string
	ours     bool
	lines    []string
}

var rewrite = flag.Bool("rewrite", false, "write the answers into the transcripts; read the diff as code")

func readTranscripts(t *testing.T) []*transcript {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	var list []*transcript
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tr := &transcript{name: file, lines: strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")}
		for _, line := range tr.lines {
			if p, ok := strings.CutPrefix(line, "password "); ok {
				tr.password = p
			}
			if p, ok := strings.CutPrefix(line, "profile "); ok {
				tr.setProfile(strings.Fields(p))
			}
			tr.ours = tr.ours || strings.HasPrefix(line, "not redis:")
		}
		list = append(list, tr)
	}
	return list
}

func (tr *transcript) setProfile(words []string) {
	tr.profile = map[string]*Profile{"cluster": Cluster, "sentinel": Sentinel}[words[0]]
	if len(words) > 1 {
		tr.redirect = func(bool) string { return words[1] }
	}
}

// Every transcript holds against the server over a fake backend.
func TestTranscripts(t *testing.T) {
	for _, tr := range readTranscripts(t) {
		t.Run(filepath.Base(tr.name), func(t *testing.T) {
			_, fake, addr := startServer(t, func(c *Config) { c.Password, c.Profile, c.Redirect = tr.password, tr.profile, tr.redirect })
			tr.run(t, addr, fake, *rewrite && tr.ours)
		})
	}
}

var headerForm = regexp.MustCompile(`^(password|profile|not redis:) `)

var lineForm = regexp.MustCompile(`^([a-z]*)([>$<~]) ?(.*)$`)

// run plays a transcript. fake is the backend of the server, nil if that is Redis.
func (tr *transcript) run(t *testing.T, addr string, fake *fakeBackend, record bool) {
	p := &player{t: t, addr: addr, peers: map[string]*peer{}}
	defer p.close()
	var out []string
	for i, line := range tr.lines {
		p.at = fmt.Sprintf("%s:%d: %s", tr.name, i+1, line)
		form := lineForm.FindStringSubmatch(line)
		_, isClosed := strings.CutSuffix(line, "closed")
		switch {
		case line == "" || line[0] == '#' || headerForm.MatchString(line):
			out = append(out, line)
		case strings.HasPrefix(line, "requests "):
			if out = append(out, line); fake != nil {
				p.expectRequests(fake, strings.TrimPrefix(line, "requests "))
			}
		case isClosed && !record:
			p.peer(strings.TrimSuffix(line, "closed")).expectClosed()
		case form == nil && !isClosed:
			t.Fatalf("%s: what is this line?", p.at)
		case !isClosed && (form[2] == ">" || form[2] == "$"):
			p.peer(form[1]).send(form[2], p.fill(form[3]))
			out = append(out, line)
			if record {
				out = append(out, p.record(tr.lines[i+1:])...)
			}
		case !record:
			p.peer(form[1]).expect(form[2], p.fill(form[3]))
		}
		if t.Failed() {
			return
		}
	}
	if record {
		if err := os.WriteFile(tr.name, []byte(strings.Join(out, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	p.at = tr.name + ": at the end"
	p.expectNothingMore()
}

// player holds the connections of one transcript.
type player struct {
	t     *testing.T
	addr  string
	at    string
	peers map[string]*peer
}

type peer struct {
	p    *player
	conn net.Conn
	in   *bufio.Reader
	gone bool
	id   string // once it was asked for
}

func (p *player) peer(name string) *peer {
	c := p.peers[name]
	if c == nil {
		conn, err := net.Dial("tcp", p.addr)
		if err != nil {
			p.t.Fatalf("%s: %v", p.at, err)
		}
		c = &peer{p: p, conn: conn, in: bufio.NewReader(conn)}
		p.peers[name] = c
	}
	return c
}

var idForm = regexp.MustCompile(`\{id [a-z]+\}`)

// fill puts the ids of connections into a text.
func (p *player) fill(text string) string {
	return idForm.ReplaceAllStringFunc(text, func(name string) string {
		c := p.peer(name[len("{id ") : len(name)-1])
		if c.id == "" {
			c.send(">", "CLIENT ID")
			line, err := c.readLine()
			if err != nil || line[0] != ':' {
				p.t.Fatalf("%s: id %q, %v", p.at, line, err)
			}
			c.id = strings.TrimSpace(line[1:])
		}
		return c.id
	})
}

func (p *player) close() {
	for _, c := range p.peers {
		c.conn.Close()
	}
}

func unescaped(text string) string {
	text, bare := strings.CutSuffix(text, `\`)
	s, err := strconv.Unquote(`"` + strings.ReplaceAll(text, `"`, `\"`) + `"`)
	if err != nil {
		return "bad escape: " + text
	}
	if bare {
		return s
	}
	return s + "\r\n"
}

func (c *peer) send(sign, text string) {
	msg := []byte(unescaped(text))
	if sign == "$" {
		words, ok := resp.SplitWords(text)
		if !ok {
			c.p.t.Fatalf("%s: unbalanced quotes", c.p.at)
		}
		msg = resp.AppendCommand(nil, words...)
	}
	c.conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.conn.Write(msg); err != nil {
		c.p.t.Fatalf("%s: %v", c.p.at, err)
	}
}

func (c *peer) expect(sign, text string) {
	c.p.t.Helper()
	c.conn.SetDeadline(time.Now().Add(time.Minute))
	if sign == "~" {
		line, err := c.readLine()
		if err != nil || !regexp.MustCompile("^(?:"+text+")\r\n$").MatchString(line) {
			c.p.t.Errorf("%s: got %q, %v", c.p.at, line, err)
		}
		return
	}
	want := unescaped(text)
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.in, got)
	if err != nil || string(got) != want {
		c.p.t.Errorf("%s: got %q, %v", c.p.at, got[:n], err)
	}
}

// readLine reads up to a CR and LF; either may stand in the line by itself.
func (c *peer) readLine() (line string, err error) {
	for err == nil && !strings.HasSuffix(line, "\r\n") {
		var part string
		part, err = c.in.ReadString('\n')
		line += part
	}
	return line, err
}

func (c *peer) expectClosed() {
	c.gone = true
	if b, err := c.in.ReadByte(); err == nil {
		c.p.t.Errorf("%s: got %q", c.p.at, b)
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		c.p.t.Errorf("%s: still open", c.p.at)
	}
}

func (p *player) expectRequests(fake *fakeBackend, want string) {
	fake.mu.Lock()
	defer fake.mu.Unlock()
	if got := strings.Trim(fmt.Sprint(fake.requests), "[]"); got != want {
		p.t.Errorf("%s: got %s", p.at, got)
	}
	fake.requests = nil
}

func (p *player) expectNothingMore() {
	for name, c := range p.peers {
		if c.gone {
			continue
		}
		c.conn.(*net.TCPConn).CloseWrite()
		rest, _ := io.ReadAll(c.in)
		if len(rest) > 0 {
			p.t.Errorf("%s: connection %q got %q more", p.at, name, rest)
		}
	}
}

// record reads what every connection got, until it is quiet, and writes it as
// lines. A line that an old regexp matches keeps the regexp.
func (p *player) record(after []string) []string {
	var old []*regexp.Regexp
	for _, line := range after {
		form := lineForm.FindStringSubmatch(line)
		if form != nil && (form[2] == ">" || form[2] == "$") {
			break
		}
		if form != nil && form[2] == "~" && len(form[3]) > 20 {
			old = append(old, regexp.MustCompile("^(?:"+form[3]+")$"))
		}
	}
	names := make([]string, 0, len(p.peers))
	for name := range p.peers {
		names = append(names, name)
	}
	slices.Sort(names)
	var lines []string
	for _, name := range names {
		lines = append(lines, p.peers[name].recordOne(name, old)...)
	}
	return lines
}

func (c *peer) recordOne(name string, old []*regexp.Regexp) []string {
	if c.gone {
		return nil
	}
	c.conn.SetReadDeadline(time.Now().Add(40 * time.Millisecond))
	got, err := io.ReadAll(c.in)
	var lines []string
	var before [2]string
	for len(got) > 0 {
		piece, rest, whole := bytes.Cut(got, []byte("\r\n"))
		got = rest
		line := name + "< " + escaped(string(piece))
		switch {
		case !whole:
			line += `\`
		case before[1] == "version": // what HELLO answers differs from server to server
			line = name + `~ \$[0-9]+`
		case before[0] == "version":
			line = name + `~ [0-9.]+`
		case before[1] == "id":
			line = name + `~ :[0-9]+`
		}
		for other, p := range c.p.peers {
			if p.id != "" && string(piece) == ":"+p.id {
				line = name + "< :{id " + other + "}"
			}
		}
		before = [2]string{before[1], string(piece)}
		for _, re := range old {
			if re.Match(piece) {
				line = name + "~ " + strings.TrimSuffix(strings.TrimPrefix(re.String(), "^(?:"), ")$")
			}
		}
		if strings.HasSuffix(line, "< ") {
			line = line[:len(line)-1]
		} else if strings.HasSuffix(line, " ") {
			line = line[:len(line)-1] + `\x20`
		}
		lines = append(lines, line)
	}
	if err == nil {
		c.gone = true
		lines = append(lines, name+"closed")
	}
	return lines
}

func escaped(text string) string {
	quoted := strconv.QuoteToASCII(text)
	if !strings.Contains(quoted, `\u`) {
		return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
	}
	return text
}
