package resp

import "strings"

// Slots is the number of slots into which Redis Cluster divides the keys.
const Slots = 16384

// Slot returns the slot of a key: the CRC-16 of the text in its first pair of braces, if not empty, else of the whole
// key. lockd keeps all keys together; slots matter only in its answers to cluster clients.
func Slot(key string) int {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	crc := uint16(0)
	for i := range len(key) {
		crc = crc<<8 ^ crc16[byte(crc>>8)^key[i]]
	}
	return int(crc % Slots)
}

// crc16 is the table of CRC-16/XMODEM, whose polynomial is x^16 + x^12 + x^5 + 1.
var crc16 = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			if crc <<= 1; carry {
				crc ^= 0x1021
			}
		}
		table[i] = crc
	}
	return table
}()
