// Package fakenode is for tests only: servers for the client under test.
package fakenode

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"
)

// Accept listens on loopback and calls serve, concurrently, for each connection until the test ends. It closes a
// connection when serve returns.
func Accept(t testing.TB, serve func(conn net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() }) // no client connects any more
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }() // as below
				serve(conn)
			}()
		}
	}()
	return ln.Addr().String()
}

// Listen is Accept with Serve.
func Listen(t testing.TB, answer func(words []string) string) (addr string) {
	t.Helper()
	return Accept(t, func(conn net.Conn) { Serve(conn, answer) })
}

// Serve writes answer(command) for each command of a connection, until the client closes it or answer returns "".
// answer is called concurrently if there are several connections.
func Serve(conn net.Conn, answer func(words []string) string) {
	defer func() { _ = conn.Close() }() // the client has closed it, or must see it closed
	for in := bufio.NewReader(conn); ; {
		words, err := Read(in)
		if err != nil {
			return
		}
		text := answer(words)
		if text == "" {
			return
		}
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
	}
}

// Read reads a command.
func Read(in *bufio.Reader) (words []string, err error) {
	var n, size int
	if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
		return nil, err
	}
	for range n {
		if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			return nil, err
		}
		text := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, err
		}
		words = append(words, string(text[:size]))
	}
	return words, nil
}
