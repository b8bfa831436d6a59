// Package secure implements TLS for the clients of a node: certificates that are reloaded when their files change,
// handshakes bounded in number and time, and connections that survive an interrupted write. It also configures the
// client's side for the commands of this binary that are clients.
//
//	files.go     the content of the files
//	source.go    the files, followed
//	listener.go  handshakes
//	conn.go      connections
package secure
