/**
 * The cells of an answer as the text that came, one array per row. Parsed JSON would have lost what the tests of values
 * are about: the digits past the 53rd bit, a zero's sign, a document's spacing.
 */
export function rawRows(body: string): string[][] {
  // A quote within a name or a value is escaped, so this cannot be found inside one.
  const marker = '"data":[';
  const start = body.indexOf(marker);
  if (start < 0) throw new Error('the body has no data');
  const rows: string[][] = [];
  let at = start + marker.length;
  while (body[at] !== ']') {
    if (body[at] === ',') at++;
    if (body[at] !== '[') throw new Error(`a row does not begin at ${at}: ${body.slice(at, at + 40)}`);
    const row: string[] = [];
    at++;
    while (body[at] !== ']') {
      const end = cellEnd(body, at);
      row.push(body.slice(at, end));
      at = body[end] === ',' ? end + 1 : end;
    }
    rows.push(row);
    at++;
  }
  return rows;
}

function cellEnd(body: string, start: number): number {
  let depth = 0;
  for (let at = start; at < body.length; at++) {
    const character = body[at];
    if (character === '"') at = stringEnd(body, at);
    else if (character === '[' || character === '{') depth++;
    else if (depth > 0 && (character === ']' || character === '}')) depth--;
    else if (depth === 0 && (character === ',' || character === ']')) return at;
  }
  throw new Error('the body ends within a cell');
}

function stringEnd(body: string, start: number): number {
  for (let at = start + 1; at < body.length; at++) {
    if (body[at] === '\\') at++;
    else if (body[at] === '"') return at;
  }
  throw new Error('the body ends within a string');
}
