package resp

import "context"

// overTLS is the context key that marks a client that speaks TLS.
type overTLS struct{}

// WithTLS marks a context as that of a client that speaks TLS, so that the addresses in its answers are TLS
// addresses.
func WithTLS(ctx context.Context) context.Context { return context.WithValue(ctx, overTLS{}, true) }

// OverTLS reports whether WithTLS marked the context.
func OverTLS(ctx context.Context) bool { return ctx.Value(overTLS{}) != nil }
