/** The fields of a CSV file (RFC 4180); null for an empty field without quotes. */
export function parseCsv(text: string): (string | null)[][] {
  const rows: (string | null)[][] = [];
  const field = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/gy;
  let row: (string | null)[] = [];
  while (field.lastIndex < text.length) {
    const found = field.exec(text);
    if (found === null) throw new Error('this is not CSV');
    const [, quoted, plain, end] = found;
    row.push(quoted !== undefined ? quoted.replaceAll('""', '"') : plain === '' ? null : (plain ?? null));
    if (end === ',') continue;
    rows.push(row);
    row = [];
  }
  return rows;
}
