// Package describe says of commands what COMMAND INFO, DOCS and GETKEYSANDFLAGS say of them, in
// the shapes of Redis 7. It knows no session: all that it says it derives from rows
// (resp.Spec).
//
// Everything in it may be called concurrently.
package describe
