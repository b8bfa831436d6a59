// Command clients runs the suites of real client libraries, one folder per language, against three nodes of lockd and
// against redis-server, with the same assertions: a scene that fails on Redis is no requirement of lockd.
//
// A suite is a separate program. It reads the addresses of the servers from the environment (environment in
// servers.go), asks the control port to kill the leader or to make the cluster whole, and prints one line per scene:
//
//	RESULT <client> <version> <mode> <scene> ok|fail|none [words]
//
// mode is the way in which the client found the servers (single, sentinel, cluster, tls ...; with RESP3 in it if the
// client was set to that protocol). none means that the scene does not apply to the library, and words give the reason.
//
// After a suite the runner asks all nodes of lockd for LOCKS DOCTOR. The answer is one more scene, of all clients of
// the suite: correct programs have no findings.
//
// With CLIENTS_JUDGE=safety the Go suite reports delays without failing, and leaves out the scene resume, which only
// measures delays. CLIENTS_SCENE names the only scene to run.
package main
