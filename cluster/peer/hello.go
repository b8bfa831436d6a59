package peer

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
)

// Every connection between nodes begins with three messages, in which both sides introduce themselves and may refuse
// each other:
//
//	dialler   hello    purpose of the connection, and the dialler's identity
//	listener  accept   the listener's identity  | refuse  the reason
//	dialler   accept   (the connection is used) | refuse  the reason
//
//	message   magic(8) version(1) kind(1) length(4, big endian) body
//
// The bodies are small JSON documents: a later version may add fields.
//
// The identity states the rules by which a node applies an entry: its commands and their formats, at each level that it
// supports (Identity.Rules). Nodes that would apply the same entry with different results must not share a log, so they
// do not connect unless they agree at the level in force. The version is that of these messages and of what follows
// them; it rises only with a change that the version before would misread.

const (
	helloMagic    = "\x00lockdN\n" // no RESP, HTTP or TLS client begins like this
	helloVersion  = 1
	helloHeadLen  = len(helloMagic) + 6
	helloBodyMax  = 64 << 10 // bytes of a body: what the limits below allow, escaped
	helloAddrsMax = 16       // client addresses of a node
	helloTextMax  = 1 << 10  // bytes of a refusal's text

	helloMagicDevelopment = "\x00lockdP\n" // of development builds: their versions are others
)

// Version is the version of the protocol between nodes.
const Version = helloVersion

// Limits of an Identity, in bytes.
const (
	NameMax   = 256      // of an id, an address, ...
	RulesMax  = 32 << 10 // of Rules
	LevelMax  = 1 << 16  // not bytes: the highest level
	TokensMax = 128 * 10 // of Tokens

	FoundersMax = 9       // not bytes: members of a Promise
	RoundMax    = 1 << 32 // not bytes: a round of a Promise
	PromiseMax  = 2 << 10 // of the names in a Promise
)

// Kind is the kind of a message of the hello; for the dialler's first one, the purpose of the connection.
type Kind byte

// The purposes of a connection.
const (
	ForRaft     Kind = 'r' // Raft's own messages
	ForLog      Kind = 'l' // a leader's replication
	ForCalls    Kind = 'c' // forwarded requests and status questions
	ForIdentity Kind = 'w' // the hello alone: it identifies the listener
)

const (
	helloAccept Kind = 'a'
	helloRefuse Kind = 'n'
)

// Identity is a node's account of itself.
type Identity struct {
	Cluster     string   // cluster id; empty while the node has not joined one
	ID          string   // node id
	Incarnation string   // drawn for each data folder
	PeerAddr    string   // address for peers
	ClientAddrs []string // addresses for clients
	Arch        string   // architecture with its level
	Format      int      // format of entries and snapshots it writes
	Rules       string   // a word for each rule by which it applies the log, at all its levels
	Level       int      // the level in force, as far as it has applied the log; 0: 1
	Lowest      int      // the lowest level that it supports; 0: 1
	Highest     int      // the highest; 0: 1
	Version     string   // of lockd, for people; "": not given
	Process     uint64   // drawn when its process starts, so another one after each restart; 0: not given
	Starts      uint64   // how often a node was started on its data folder; 0: it has none
	Tokens      string   // drawn at its last starts, the newest last
	Promise     Promise  `json:",omitzero"` // to found a cluster; only a node without data makes one
}

// Promise promises to found one cluster together with other nodes, and no other cluster. The zero value is no promise.
type Promise struct {
	Round   uint64    // from 1; a node makes one promise in a round, and its rounds only rise
	Members []Founder // by id
}

// Founder is a member of a cluster that is to be founded.
type Founder struct{ ID, Incarnation, PeerAddr string }

var (
	errHello       = errors.New("not a lockd peer")
	errStranger    = fmt.Errorf("%w: it speaks another protocol", errHello)
	errDevelopment = &unwelcome{errors.New("it is a development build from before 0.1.0, which makes no cluster with a release")}
	errPlainPeer   = fmt.Errorf("%w: one side has a secret (--peer-secret-file), the other has none", ErrUninvited)
)

// tlsHandshake is the first byte of a TLS connection.
const tlsHandshake = 0x16

// strangerText answers a Redis client that connects to the peer port.
const strangerText = "-ERR this port is for the other nodes of lockd, not for clients\r\n"

// appendHello appends one message. A body never exceeds helloBodyMax: the callers have checked or cut its contents.
func appendHello(dst []byte, kind Kind, body any) []byte {
	text, err := json.Marshal(body)
	if err != nil || len(text) > helloBodyMax {
		panic(fmt.Sprintf("peer: hello body of %d bytes: %v", len(text), err))
	}
	dst = append(dst, helloMagic...)
	dst = append(dst, helloVersion, byte(kind))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(text)))
	return append(dst, text...)
}

// readHello reads one message and not a byte more. It fails on the first wrong byte, so that it does not wait for a
// stranger.
func readHello(r io.Reader) (Kind, []byte, error) {
	var head [helloHeadLen]byte
	if _, err := io.ReadFull(r, head[:1]); err != nil {
		return 0, nil, err
	}
	if head[0] == tlsHandshake {
		return 0, nil, errPlainPeer
	}
	if head[0] != helloMagic[0] {
		return 0, nil, fmt.Errorf("%w: %q", errStranger, readSome(r, head[0]))
	}
	if _, err := io.ReadFull(r, head[1:]); err != nil {
		return 0, nil, err
	}
	rest := head[len(helloMagic):]
	size := binary.BigEndian.Uint32(rest[2:])
	switch {
	case string(head[:len(helloMagic)]) == helloMagicDevelopment:
		return 0, nil, errDevelopment
	case string(head[:len(helloMagic)]) != helloMagic:
		return 0, nil, fmt.Errorf("%w: %q", errStranger, head[:len(helloMagic)])
	case size > helloBodyMax:
		return 0, nil, fmt.Errorf("%w: hello of %d bytes", errHello, size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	if rest[0] != helloVersion {
		return 0, nil, &unwelcome{
			fmt.Errorf("it speaks version %d of the peer protocol, this node version %d", rest[0], helloVersion),
		}
	}
	return Kind(rest[1]), body, nil
}

// readSome reads the first bytes of a stranger, for the error text.
func readSome(r io.Reader, first byte) string {
	buf := make([]byte, 64)
	buf[0] = first
	n, _ := r.Read(buf[1:])
	return string(buf[:1+max(n, 0)])
}

func decodeIdentity(body []byte) (Identity, error) {
	var who Identity
	if err := json.Unmarshal(body, &who); err != nil {
		return Identity{}, fmt.Errorf("%w: unreadable identity: %v", errHello, err)
	}
	if err := who.Check(); err != nil {
		return Identity{}, fmt.Errorf("%w: %w", errHello, err)
	}
	return who, nil
}

// Check returns an error if an identity exceeds the limits of the protocol.
func (who Identity) Check() error {
	switch {
	case who.ID == "":
		return errors.New("a node without an id")
	case len(who.Tokens) > TokensMax:
		return fmt.Errorf("a node with %d bytes of tokens", len(who.Tokens))
	case len(who.Rules) > RulesMax:
		return fmt.Errorf("a node with rules of %d bytes (at most %d)", len(who.Rules), RulesMax)
	case who.Lowest < 0 || who.Lowest > who.Highest || who.Highest > LevelMax || who.Level < 0 || who.Level > who.Highest:
		return fmt.Errorf("a node at level %d that can do levels %d to %d", who.Level, who.Lowest, who.Highest)
	case len(who.ClientAddrs) > helloAddrsMax:
		return fmt.Errorf("a node with %d client addresses (at most %d)", len(who.ClientAddrs), helloAddrsMax)
	}
	if err := who.Promise.check(); err != nil {
		return err
	}
	names := []string{who.Cluster, who.ID, who.Incarnation, who.PeerAddr, who.Arch, who.Version}
	for _, s := range append(names, who.ClientAddrs...) {
		if len(s) > NameMax || strings.ContainsFunc(s, isControl) {
			return fmt.Errorf("an identity with the name %.40q (at most %d printable bytes)", s, NameMax)
		}
	}
	return nil
}

func (p Promise) check() error {
	size := 0
	for _, m := range p.Members {
		for _, s := range []string{m.ID, m.Incarnation, m.PeerAddr} {
			if size += len(s); len(s) > NameMax || strings.ContainsFunc(s, isControl) {
				return fmt.Errorf("a promise with the name %.40q (at most %d printable bytes)", s, NameMax)
			}
		}
	}
	if p.Round > RoundMax || len(p.Members) > FoundersMax || size > PromiseMax {
		return fmt.Errorf("a promise of round %d with %d members and %d bytes of names (at most %d, %d and %d)",
			p.Round, len(p.Members), size, uint64(RoundMax), FoundersMax, PromiseMax)
	}
	return nil
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// OneLine makes foreign text fit to be logged: without control characters, limit bytes
// at most.
func OneLine(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, s)
	return s[:min(len(s), limit)]
}

// greet is the dialler's side of a new connection. Its error is a *Refusal
// when the other side refused.
func greet(conn net.Conn, kind Kind, self Identity, admit func(Identity) error) (Identity, error) {
	if _, err := conn.Write(appendHello(nil, kind, self)); err != nil {
		return Identity{}, err
	}
	answer, body, err := readHello(conn)
	if err != nil {
		return Identity{}, err
	}
	if answer == helloRefuse {
		return Identity{}, decodeRefusal(body)
	}
	who, err := decodeIdentity(body)
	if err == nil && answer != helloAccept {
		err = fmt.Errorf("%w: it answered %q", errHello, byte(answer))
	}
	if err == nil {
		err = admit(who)
	}
	if err != nil {
		refuse(conn, self.ID, err)
		return who, err
	}
	_, err = conn.Write(appendHello(nil, helloAccept, struct{}{}))
	return who, err
}

// welcome performs the listener's side of a hello. The error is a *refusedError if the other side refused.
func welcome(conn net.Conn, self Identity, admit func(Kind, Identity) error) (Kind, Identity, error) {
	kind, body, err := readHello(conn)
	var who Identity
	if err == nil {
		who, err = decodeIdentity(body)
	}
	if err == nil && kind != ForRaft && kind != ForLog && kind != ForCalls && kind != ForIdentity {
		err = fmt.Errorf("%w: a hello of unknown kind %q", errHello, byte(kind))
	}
	if err == nil {
		err = admit(kind, who)
	}
	if err != nil {
		refuse(conn, self.ID, err)
		return 0, who, err
	}
	if _, err := conn.Write(appendHello(nil, helloAccept, self)); err != nil {
		return 0, who, err
	}
	verdict, body, err := readHello(conn)
	switch {
	case err != nil:
		return 0, who, err
	case verdict == helloRefuse:
		return 0, who, decodeRefusal(body)
	case verdict != helloAccept:
		return 0, who, fmt.Errorf("%w: it answered %q", errHello, byte(verdict))
	}
	return kind, who, nil
}
