package nemesis

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"lockd/jepsen-lite/target"
)

// attack is one action of the clients of a variant, which each repeats.
type attack struct {
	// per node
	clients int
	do      func(v *villain, conn net.Conn)
	one     bool          // attack one node only
	apart   time.Duration // time between the first connections of two clients
	doors   []target.Door // where they connect, in turn
}

// attacks are the variants of hostile.
var attacks = map[string]attack{
	"drip":       {60, drip, false, 0, []target.Door{target.ForClients, target.Inside, target.ForHTTP, target.ForPeers}},
	"handshakes": {400, halfHello, false, 0, []target.Door{target.ForClients, target.ForClients, target.ForPeers}},
	"crowd":      {400, say(""), false, crowdEvery, []target.Door{target.Inside}},
	"deaf":       {2, deaf, true, 0, []target.Door{target.Inside}},
	"guesses":    {8, guess, false, 0, []target.Door{target.Inside}},
	"lines":      {4, endlessLine, false, 0, []target.Door{target.Inside}},
	"huge":       {8, announce, false, 0, []target.Door{target.Inside}},
}

// Times and sizes of attacks.
const (
	hostileRest   = time.Second // between two connections of a client
	hostileAnswer = 4 * time.Second

	dripEvery  = time.Second
	crowdEvery = 40 * time.Millisecond // a TLS handshake costs milliseconds of a processor

	deafKey   = loadPrefix + "deaf"
	deafBytes = 256 << 10 // of the value that is read
	deafPiece = 32        // commands at once: an answer of 8 MiB
	deafEvery = 50 * time.Millisecond
	deafMax   = 384 << 20 // of answers that are requested and not read
	deafGrow  = 16 << 20  // bytes of memory by which a node grows in deafFull while it keeps more and more answers
	deafFull  = 3 * time.Second

	guessUserBytes = 8 << 10
	guessPipeline  = 32

	lineBytes      = 64 << 10 // of a line, sent at once
	lineBytesOfAll = 256 << 20
	bulkBytes      = 8 << 20 // the largest value that lockd accepts
)

// hostileMemory bounds the bytes of memory that hostile clients may cost a node: about twice the memory that they can
// make it keep, since Go's collector lets the heap grow to that.
const hostileMemory = 512 << 20

// hostile connects clients to the nodes that mean harm, from an address of their own. Other clients must not notice,
// and no node may take more than hostileMemory for them.
func hostile(f *field, fault Fault) (string, func()) {
	a := attacks[fault.Variant]
	count := min(a.clients, max(1, (filesMax()-fdsElse)/(2*len(f.Target.Nodes()))))
	if fault.Variant == "deaf" {
		f.clients.do(0, []string{"SET", deafKey, strings.Repeat("d", deafBytes), "EX", loadLease})
	}
	nodes := f.Target.Nodes()
	if a.one {
		nodes = f.pick("any", fault.Dice)
	}
	weighAll(f)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, node := range nodes {
		for i := range count {
			v := &villain{Context: ctx, at: f.Target, node: node, door: a.doors[i%len(a.doors)], number: i / len(a.doors)}
			all.Go(func() {
				if sleep(ctx, time.Duration(i)*a.apart) {
					v.come(a.do)
				}
			})
		}
	}
	if fault.Variant == "deaf" && len(f.kinds) == 1 {
		fill(f, nodes[0])
	}
	return fmt.Sprintf("hostile %s: %d at %v", fault.Variant, count, nodes), func() {
		weigh(f, fault.Variant)
		cancel()
		all.Wait()
	}
}

// fill waits until a node takes no more memory for answers that nobody reads: on a busy machine it makes them slowly.
func fill(f *field, node string) {
	least, since := int64(0), time.Now()
	for time.Since(since) < deafFull && f.wait(deafEvery) {
		now, _, err := f.Target.Memory(node)
		if err != nil {
			return
		}
		if now >= least+deafGrow {
			least, since = now, time.Now()
		}
	}
}

// weighAll records how much memory the nodes have now.
func weighAll(f *field) {
	for _, node := range f.Target.Nodes() {
		if now, _, err := f.Target.Memory(node); err == nil {
			f.found.weighed(node, now)
		}
	}
}

// weigh checks how much memory the nodes have taken. Beside other faults, and with Go's race detector, memory may have
// been taken for something else.
func weigh(f *field, variant string) {
	for _, node := range f.Target.Nodes() {
		_, most, err := f.Target.Memory(node)
		if err != nil || len(f.kinds) != 1 || f.race { // it does not run, or this is not Linux
			continue
		}
		if least := f.found.weighed(node, most); most-least > hostileMemory {
			f.found.add("too much memory", fmt.Sprintf("%s had %d MiB while hostile clients came (%s), and %d MiB at another "+
				"time; %d MiB more are the most", node, most>>20, variant, least>>20, hostileMemory>>20))
		}
	}
}

// weighed records how many bytes of memory a node has, and returns the least that it ever had.
func (f *findings) weighed(node string, now int64) (least int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.least == nil {
		f.least = map[string]int64{}
	}
	if was, told := f.least[node]; !told || now < was {
		f.least[node] = now
	}
	return f.least[node]
}

// villain is one hostile client of a node, until its context ends.
type villain struct {
	context.Context
	at     target.Connections
	node   string
	door   target.Door
	number int // of the clients at the same door
	times  int // number of connections so far
}

// come connects again and again and calls do with each connection, which breaks when the context ends.
func (v *villain) come(do func(v *villain, conn net.Conn)) {
	for ; v.Err() == nil; v.times++ {
		if conn, err := v.at.Knock(v.node, v.door); err == nil {
			leave := context.AfterFunc(v, func() { _ = conn.Close() })
			do(v, conn)
			leave()
			_ = conn.Close()
		}
		sleep(v, hostileRest)
	}
}

// stay reads and ignores what the node sends, until it closes the connection.
func stay(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// say returns an attack that sends a text and stays.
func say(text string) func(v *villain, conn net.Conn) {
	return func(_ *villain, conn net.Conn) {
		_, _ = io.WriteString(conn, text)
		stay(conn)
	}
}

// drip sends a valid beginning for the door, a byte a second, and never completes it.
func drip(v *villain, conn net.Conn) {
	text := "*2\r\n$3\r\nGET\r\n$64\r\n" + strings.Repeat("k", 60)
	switch {
	case v.door == target.ForHTTP:
		text = "GET / HTTP/1.1\r\nHost: x\r\nX-" + strings.Repeat("x", 60)
	case v.door != target.Inside && v.number%2 == 0:
		text = string(clientHello())
	}
	for _, b := range []byte(text) {
		if _, err := conn.Write([]byte{b}); err != nil || !sleep(v, dripEvery) {
			return
		}
	}
}

// halfHello sends half of the first message of a TLS handshake, and nothing more.
func halfHello(v *villain, conn net.Conn) {
	hello := clientHello()
	say(string(hello[:len(hello)/2]))(v, conn)
}

// clientHello is the first message of a TLS client.
var clientHello = sync.OnceValue(func() []byte {
	here, there := net.Pipe()
	go func() {
		_ = tls.Client(here, &tls.Config{ServerName: "lockd"}).Handshake()
		_ = here.Close()
	}()
	hello := make([]byte, 16<<10)
	n, _ := there.Read(hello)
	_ = there.Close()
	return hello[:n]
})

// deaf requests more than fits into any buffer, and reads none of it.
func deaf(v *villain, conn net.Conn) {
	one := fmt.Sprintf("*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(deafKey), deafKey)
	for asked := 0; asked < deafMax && sleep(v, deafEvery); asked += deafPiece * deafBytes {
		if _, err := io.WriteString(conn, strings.Repeat(one, deafPiece)); err != nil {
			return
		}
	}
	<-v.Done()
}

// guess tries one password after the other, for users with long names.
func guess(v *villain, conn net.Conn) {
	r := bufio.NewReader(conn)
	for v.Err() == nil {
		user := fmt.Sprintf("%d%s", v.times, strings.Repeat("u", guessUserBytes))
		one := fmt.Sprintf("*3\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n$5\r\nwrong\r\n", len(user), user)
		_ = conn.SetDeadline(time.Now().Add(hostileAnswer))
		if _, err := io.WriteString(conn, strings.Repeat(one, guessPipeline)); err != nil {
			return
		}
		for range guessPipeline {
			if _, err := r.ReadSlice('\n'); err != nil {
				return
			}
		}
	}
}

// endlessLine sends a line without an end.
func endlessLine(v *villain, conn net.Conn) {
	piece := bytes.Repeat([]byte("x"), lineBytes)
	for sent := 0; sent < lineBytesOfAll && v.Err() == nil; sent += len(piece) {
		if _, err := conn.Write(piece); err != nil {
			return
		}
	}
	stay(conn)
}

// announce announces very large commands and sends little or nothing of them.
func announce(v *villain, conn net.Conn) {
	bulk := fmt.Sprintf("$%d\r\n", bulkBytes)
	switch v.number {
	case 0: // nearly all of the largest command
		say("*8\r\n"+strings.Repeat(bulk+strings.Repeat("x", bulkBytes)+"\r\n", 7))(v, conn)
	case 1:
		say("*2\r\n"+bulk+strings.Repeat("x", bulkBytes-1))(v, conn)
	case 2:
		say("*1048576\r\n"+strings.Repeat("$1\r\nx\r\n", 1<<18))(v, conn)
	case 3:
		say("*1048576\r\n"+bulk)(v, conn)
	case 4:
		say("*2147483647\r\n")(v, conn)
	case 5:
		say("*1\r\n$9223372036854775807\r\n")(v, conn)
	case 6:
		say("*-1\r\n*0\r\n*1\r\n$-5\r\n")(v, conn)
	default:
		say("*1\r\n"+bulk)(v, conn)
	}
}
