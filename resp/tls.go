package resp

import "context"

// overTLS is the key of a context's word that the client speaks TLS.
type overTLS struct{}

// WithTLS says that what is asked in a context comes from a client that speaks TLS: addresses that it is told are those
// at which it can do so.
func WithTLS(ctx context.Context) context.Context { return context.WithValue(ctx, overTLS{}, true) }

// OverTLS reports whether WithTLS has said so.
func OverTLS(ctx context.Context) bool { return ctx.Value(overTLS{}) != nil }
