// Command clients runs the suites of real client libraries, one folder per
// language, against three nodes of lockd and against redis-server, with the same
// assertions: what Redis would fail is no demand on lockd.
//
// A suite is a program of its own. It learns from the environment where the servers
// are (environment in servers.go), asks the control port to kill the leader or to make the
// cluster whole, and prints one line per scene:
//
//	RESULT <client> <version> <mode> <scene> ok|fail|none [words]
//
// where mode is how it found the servers (single, sentinel, cluster, tls ...; with
// RESP3 in it where the client was told to speak that) and none says that the
// library has nothing the scene could show, with the reason as words.
//
// After a suite the runner asks all nodes of lockd for LOCKS DOCTOR, which is one more
// scene, of all clients of the suite: of correct programs it says nothing.
//
// With CLIENTS_JUDGE=safety the Go suite tells what took long, and does not fail by it; the scene resume, which shows
// nothing else, is left out. CLIENTS_SCENE names the only scene to show.
package main
