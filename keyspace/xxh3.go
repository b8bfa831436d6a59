package keyspace

import "math/bits"

// xxh3 is the 64-bit XXH3 hash with the default secret and no seed, written after its
// public specification. It is part of what Apply computes: a library that takes another
// way on each processor would be a chance for two nodes to disagree.
func xxh3(s string) uint64 {
	switch n := len(s); {
	case n > 240:
		return xxh3Long(s)
	case n > 128:
		return xxh3To240(s)
	case n > 16:
		return xxh3To128(s)
	case n > 8:
		lo := le64(s) ^ le64(xxhSecret[24:]) ^ le64(xxhSecret[32:])
		hi := le64(s[n-8:]) ^ le64(xxhSecret[40:]) ^ le64(xxhSecret[48:])
		return xxhAvalanche(uint64(n) + bits.ReverseBytes64(lo) + hi + mulFold(lo, hi))
	case n >= 4:
		both := uint64(le32(s[n-4:])) + uint64(le32(s))<<32
		h := both ^ le64(xxhSecret[8:]) ^ le64(xxhSecret[16:])
		h ^= bits.RotateLeft64(h, 49) ^ bits.RotateLeft64(h, 24)
		h *= xxhMix2
		h ^= h>>35 + uint64(n)
		h *= xxhMix2
		return h ^ h>>28
	case n > 0:
		three := uint32(s[0])<<16 | uint32(s[n/2])<<24 | uint32(s[n-1]) | uint32(n)<<8
		return xxhFinish(uint64(three ^ le32(xxhSecret) ^ le32(xxhSecret[4:])))
	}
	return xxhFinish(le64(xxhSecret[56:]) ^ le64(xxhSecret[64:]))
}

const (
	xxh32Prime1 = 0x9E3779B1
	xxh32Prime2 = 0x85EBCA77
	xxh32Prime3 = 0xC2B2AE3D
	xxh64Prime1 = 0x9E3779B185EBCA87
	xxh64Prime2 = 0xC2B2AE3D27D4EB4F
	xxh64Prime3 = 0x165667B19E3779F9
	xxh64Prime4 = 0x85EBCA77C2B2AE63
	xxh64Prime5 = 0x27D4EB2F165667C5
	xxhMix1     = 0x165667919E3779F9
	xxhMix2     = 0x9FB21C651E98DF25
)

const xxhSecret = "\xb8\xfe\x6c\x39\x23\xa4\x4b\xbe\x7c\x01\x81\x2c\xf7\x21\xad\x1c\xde\xd4\x6d\xe9\x83\x90\x97\xdb" +
	"\x72\x40\xa4\xa4\xb7\xb3\x67\x1f\xcb\x79\xe6\x4e\xcc\xc0\xe5\x78\x82\x5a\xd0\x7d\xcc\xff\x72\x21" +
	"\xb8\x08\x46\x74\xf7\x43\x24\x8e\xe0\x35\x90\xe6\x81\x3a\x26\x4c\x3c\x28\x52\xbb\x91\xc3\x00\xcb" +
	"\x88\xd0\x65\x8b\x1b\x53\x2e\xa3\x71\x64\x48\x97\xa2\x0d\xf9\x4e\x38\x19\xef\x46\xa9\xde\xac\xd8" +
	"\xa8\xfa\x76\x3f\xe3\x9c\x34\x3f\xf9\xdc\xbb\xc7\xc7\x0b\x4f\x1d\x8a\x51\xe0\x4b\xcd\xb4\x59\x31" +
	"\xc8\x9f\x7e\xc9\xd9\x78\x73\x64\xea\xc5\xac\x83\x34\xd3\xeb\xc3\xc5\x81\xa0\xff\xfa\x13\x63\xeb" +
	"\x17\x0d\xdd\x51\xb7\xf0\xda\x49\xd3\x16\x55\x26\x29\xd4\x68\x9e\x2b\x16\xbe\x58\x7d\x47\xa1\xfc" +
	"\x8f\xf8\xb8\xd1\x7a\xd0\x31\xce\x45\xcb\x3a\x8f\x95\x16\x04\x28\xaf\xd7\xfb\xca\xbb\x4b\x40\x7e"

// xxh3To128 mixes from both ends inwards, so that every byte is read at least once.
func xxh3To128(s string) uint64 {
	n := len(s)
	h := uint64(n) * xxh64Prime1
	for i := (n - 1) / 32; i >= 0; i-- {
		h += xxhMix16(s[16*i:], xxhSecret[32*i:]) + xxhMix16(s[n-16*(i+1):], xxhSecret[32*i+16:])
	}
	return xxhAvalanche(h)
}

func xxh3To240(s string) uint64 {
	n := len(s)
	h := uint64(n) * xxh64Prime1
	for i := range 8 {
		h += xxhMix16(s[16*i:], xxhSecret[16*i:])
	}
	h = xxhAvalanche(h)
	for i := 8; i < n/16; i++ {
		h += xxhMix16(s[16*i:], xxhSecret[16*(i-8)+3:])
	}
	return xxhAvalanche(h + xxhMix16(s[n-16:], xxhSecret[119:]))
}

const (
	xxhStripe       = 64   // bytes
	xxhBlock        = 1024 // bytes, after which the accumulators are scrambled
	xxhSecretStep   = 8    // bytes, from stripe to stripe
	xxhSecretEnd    = len(xxhSecret) - xxhStripe
	xxhSecretLast   = xxhSecretEnd - 7
	xxhSecretFinish = 11
)

// xxh3Long works through blocks of stripes; the last stripe ends with the string, and
// may have bytes in common with the one before.
func xxh3Long(s string) uint64 {
	acc := [8]uint64{xxh32Prime3, xxh64Prime1, xxh64Prime2, xxh64Prime3, xxh64Prime4, xxh32Prime2, xxh64Prime5, xxh32Prime1}
	rest := s
	for ; len(rest) > xxhBlock; rest = rest[xxhBlock:] {
		xxhStripes(&acc, rest[:xxhBlock])
		xxhScramble(&acc)
	}
	xxhStripes(&acc, rest[:(len(rest)-1)/xxhStripe*xxhStripe])
	xxhAccumulate(&acc, s[len(s)-xxhStripe:], xxhSecret[xxhSecretLast:])
	h := uint64(len(s)) * xxh64Prime1
	for i := 0; i < len(acc); i += 2 {
		key := xxhSecret[xxhSecretFinish+8*i:]
		h += mulFold(acc[i]^le64(key), acc[i+1]^le64(key[8:]))
	}
	return xxhAvalanche(h)
}

func xxhStripes(acc *[8]uint64, s string) {
	for at := 0; at < len(s); at += xxhStripe {
		xxhAccumulate(acc, s[at:], xxhSecret[at/xxhStripe*xxhSecretStep:])
	}
}

func xxhAccumulate(acc *[8]uint64, s, secret string) {
	for i := range acc {
		data := le64(s[8*i:])
		key := data ^ le64(secret[8*i:])
		acc[i^1] += data
		acc[i] += (key & 0xffffffff) * (key >> 32)
	}
}

func xxhScramble(acc *[8]uint64) {
	for i := range acc {
		acc[i] = (acc[i] ^ acc[i]>>47 ^ le64(xxhSecret[xxhSecretEnd+8*i:])) * xxh32Prime1
	}
}

func xxhMix16(s, secret string) uint64 {
	return mulFold(le64(s)^le64(secret), le64(s[8:])^le64(secret[8:]))
}

func xxhAvalanche(h uint64) uint64 {
	h = (h ^ h>>37) * xxhMix1
	return h ^ h>>32
}

func xxhFinish(h uint64) uint64 {
	h = (h ^ h>>33) * xxh64Prime2
	h = (h ^ h>>29) * xxh64Prime3
	return h ^ h>>32
}

// mulFold multiplies to 128 bits and joins the halves.
func mulFold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func le32(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}

func le64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
