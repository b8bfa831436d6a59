package resp

import "hash/crc32"

// CRC32C is the polynomial of all checksums of lockd: in entries, files and images.
var CRC32C = crc32.MakeTable(crc32.Castagnoli)
