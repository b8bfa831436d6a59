package store

// noCopy makes `go vet` report copies of the struct that has it as a field (its check copylocks).
type noCopy struct{}

// Lock does nothing: a type with Lock and Unlock must not be copied.
func (*noCopy) Lock() {}

// Unlock does nothing.
func (*noCopy) Unlock() {}
