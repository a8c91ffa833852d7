// Row packets as mysql2 itself reads them, by its packet parser and the row parser that it compiles for text results.

import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

/** A cell as mysql2 gives it to a `typeCast` function. */
export interface Field {
  /** The number of its column, from 0 on, in digits. */
  readonly name: string;
  string(encoding: string): string | null;
  buffer(): Buffer | null;
}

interface PacketParser {
  execute(chunk: Buffer): void;
}

interface RowParser {
  next(packet: object, fields: readonly object[], options: object): unknown[];
}

interface RowOptions {
  readonly rowsAsArray: true;
  readonly typeCast?: (field: Field) => unknown;
}

const require = createRequire(import.meta.url);
// The package exports its front door alone.
const folder = join(dirname(require.resolve('mysql2')), 'lib');
const PacketParser: new (onPacket: (packet: object) => void) => PacketParser = require(
  join(folder, 'packet_parser.js'),
);
const getTextParser: (
  fields: readonly object[],
  options: RowOptions,
  config: object,
) => new (
  fields: readonly object[],
) => RowParser = require(join(folder, 'parsers/text_parser.js'));

/** How mysql2 is to take a column: by a type of the protocol, and text by its encoding. */
export interface FieldDefinition {
  readonly columnType: number;
  readonly characterSet: number;
}

/**
 * A reader of row packets, which may be cut anywhere: give it the chunks of a connection, and get an array per row that
 * has become whole. With `typeCast`, a cell is what that makes of it, else what mysql2 does.
 */
export function rowReader(
  definitions: readonly FieldDefinition[],
  typeCast?: (field: Field) => unknown,
): (chunk: Buffer) => unknown[][] {
  const fields = definitions.map((definition, name) => ({ ...definition, name: `${name}`, encoding: 'utf8' }));
  const options: RowOptions = { rowsAsArray: true, ...(typeCast && { typeCast }) };
  const rowParser = new (getTextParser(fields, options, {}))(fields);
  let rows: unknown[][] = [];
  const packets = new PacketParser((packet) => rows.push(rowParser.next(packet, fields, options)));
  return (chunk) => {
    rows = [];
    packets.execute(chunk);
    return rows;
  };
}
