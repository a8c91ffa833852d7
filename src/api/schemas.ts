import { EncodedText } from '../http/encoded-text.ts';
import type { Column } from '../wire/statement.ts';

/** A schema as JSON. */
export type Schema = string | EncodedText;

/** A longer schema is encoded once per result. Putting a shorter one into the text of each answer is cheaper. */
const joinedLengthMax = 8 * 1024;

/**
 * The schemas of results. Columns come as the same array for as long as a connection gives the same ones, page after page,
 * statement after statement; large ones come as one array per result. `columnsBytes` counts the memory of the text.
 */
export class Schemas {
  readonly #write: (columns: readonly Column[]) => string;
  readonly #schemas = new WeakMap<readonly Column[], Schema>();

  constructor(write: (columns: readonly Column[]) => string) {
    this.#write = write;
  }

  of(columns: readonly Column[]): Schema {
    let schema = this.#schemas.get(columns);
    if (schema === undefined) {
      const text = this.#write(columns);
      schema = text.length > joinedLengthMax ? new EncodedText(text) : text;
      this.#schemas.set(columns, schema);
    }
    return schema;
  }
}

/** The parts of an answer up to its data: one text, unless the schema is encoded. */
export function aroundSchema(before: string, schema: Schema, after: string): readonly Schema[] {
  return typeof schema === 'string' ? [before + schema + after] : [before, schema, after];
}
