// Package secure is TLS for the clients of a node: certificates that come from files and are followed there,
// handshakes that are bounded in number and time, and connections that survive an interrupted write. It
// is also the client's side for the commands of this binary that are clients.
//
//	files.go     what the files hold
//	source.go    the files, followed
//	listener.go  handshakes
//	conn.go      connections
package secure
