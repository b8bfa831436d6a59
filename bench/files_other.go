//go:build !unix

package main

func filesMax() (int, error) { return unlimited, nil }
