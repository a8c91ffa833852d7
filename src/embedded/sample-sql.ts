// SQL expressions for the made-up values of the sample database.

/** Another seed gives other values in every made-up row. */
export const seed = 'sluice-1';

/** An expression for an unsigned 32-bit number that depends on the seed, `tag` and the column `key` only. */
export function draw(tag: string, key = 'seq'): string {
  return `CRC32(CONCAT('${seed}${tag}', ${key}))`;
}

/** An expression for one element of a comma-separated list. */
export function pick(tag: string, list: string): string {
  const elements = list.split(',');
  return `ELT(1 + ${draw(tag)} % ${elements.length}, ${elements.map(quote).join(', ')})`;
}

/** An expression for a pseudo-random UUID of version 4. MariaDB refuses digits that are no valid UUID. */
export function uuid(tag: string): string {
  return `INSERT(INSERT(MD5(CONCAT('${seed}${tag}', seq)), 13, 1, '4'), 17, 1, 'a')`;
}

export function quote(value: string): string {
  return `'${value.replaceAll("'", "''")}'`;
}
