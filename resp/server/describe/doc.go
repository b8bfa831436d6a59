// Package describe makes the answers of COMMAND INFO, DOCS and GETKEYSANDFLAGS, in the shapes of Redis 7. It knows no
// session: it derives everything from rows (resp.Spec).
//
// All its functions are safe for concurrent use.
package describe
