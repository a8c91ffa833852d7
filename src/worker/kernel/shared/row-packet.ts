// Framing of row packets (MySQL internals manual, "Text Resultset Row", "Binary Protocol Resultset Row").

/** A payload length of 3 bytes and a sequence number. */
export const headerBytes = 4;
/** A payload of this length continues in the next packet. */
export const payloadBytesMax = 0xffffff;
export const errorHeader = 0xff;
export const eofHeader = 0xfe;
/** An EOF packet is shorter than this. A longer packet with its first byte is a row whose first cell is 16 MiB or larger. */
export const eofBytesMax = 9;
export const binaryRowHeader = 0x00;
/** The null bitmap of a binary row starts with two reserved bits. */
export const nullBitsOffset = 2;

/** Smaller first bytes of a length-encoded string are its length. This one is NULL, in a text row alone. */
export const nullPrefix = 0xfb;
/** The length is in the next 2 bytes. */
export const prefix2 = 0xfc;
/** The length is in the next 3 bytes. */
export const prefix3 = 0xfd;
/** The length is in the next 8 bytes. */
export const prefix8 = 0xfe;
