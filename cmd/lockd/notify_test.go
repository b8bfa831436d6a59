package main

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A node that is a service tells systemd's socket that it is ready, moves, reloads and stops.
func TestNotifySocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "400000")
	p := startSingle(t)
	await := func(want string) {
		t.Helper()
		var told []string
		_ = socket.SetReadDeadline(time.Now().Add(startTimeout))
		for {
			b := make([]byte, 1<<12)
			size, err := socket.Read(b)
			if err != nil {
				t.Fatalf("%s was not said: %q: %v", want, told, err)
			}
			told = append(told, string(b[:size]))
			if strings.Contains("\n"+string(b[:size]), "\n"+want) {
				return
			}
		}
	}
	await("READY=1\nSTATUS=serving")
	await("WATCHDOG=1")
	p.Signal(syscall.SIGHUP)
	await("RELOADING=1\nMONOTONIC_USEC=")
	await("READY=1")
	p.Signal(syscall.SIGTERM)
	await("STOPPING=1")
	if status := p.wait(startTimeout); status != exitOK {
		t.Errorf("exit status %d", status)
	}
}
