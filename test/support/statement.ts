import type { Statement } from '#src/wire/statement.js';

/** A statement as it is without anything else said. */
export function statement(sql: string): Statement {
  return { sql, options: null };
}
