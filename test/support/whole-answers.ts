// Whole results: streamed by a POST, and as files of kept results.

import { createHash } from 'node:crypto';
import { type IncomingMessage, request } from 'node:http';
import type { Test } from 'tap';
import { get, post, type QueryResponse, type SluiceProcess } from './sluice.ts';
import { until } from './until.ts';

export const authorization = `Basic ${Buffer.from('root:').toString('base64')}`;

export interface WholeAnswer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly trailers: IncomingMessage['trailers'];
  readonly bytes: Buffer;
  /** Whether the answer came to its end. */
  readonly isComplete: boolean;
}

export interface KeptResponse extends QueryResponse {
  readonly result_uri: string;
}

type Headers = Readonly<Record<string, string>>;

/**
 * Posts a statement and reads the answer as one body.
 * @param path what follows /v1/query, such as ?format=arrow
 * @param read what is done with the answer before its body is read
 */
export function stream(
  sluice: SluiceProcess,
  sql: string,
  path: string,
  headers: Headers = {},
  read?: (response: IncomingMessage) => Promise<void>,
): Promise<WholeAnswer> {
  const more = { 'content-type': 'application/json', ...headers };
  return exchange(`${sluice.url}/v1/query${path}`, 'POST', more, JSON.stringify({ sql }), read);
}

/** Asks for a file of a kept result. */
export function file(sluice: SluiceProcess, path: string, headers: Headers = {}, method = 'GET'): Promise<WholeAnswer> {
  return exchange(sluice.url + path, method, headers);
}

/** Runs a statement whose result is kept, until it has ended. */
export async function keep(sluice: SluiceProcess, sql: string): Promise<KeptResponse> {
  const body = { sql, result: { keep_secs: 3_600 }, pagination: { wait_time_secs: 20 } };
  const first = await post(sluice.url, body);
  if (first.status !== 200) throw new Error(`${first.status} ${first.text}`);
  const { stats_uri } = first.json;
  await until(async () => (await get(sluice.url, stats_uri)).json.state !== 'Running');
  return first.json as KeptResponse;
}

export function digestOf(data: Uint8Array | string): string {
  return createHash('sha256').update(data).digest('hex');
}

/** A file of a kept result can be read in parts, and its parts are those of the whole. */
export async function checkFile(t: Test, sluice: SluiceProcess, path: string, contentType: string): Promise<void> {
  const whole = await file(sluice, path);
  const { bytes, headers } = whole;
  const etag = String(headers.etag);
  t.equal(whole.status, 200);
  t.equal(headers['content-type'], contentType);
  t.equal(headers['content-length'], String(bytes.length));
  t.equal(headers['accept-ranges'], 'bytes');
  t.match(headers['content-disposition'], `.${path.split('.').pop()}`);
  t.match(etag, /^"[^"]+"$/);

  const head = await file(sluice, path, {}, 'HEAD');
  t.match([head.status, head.bytes.length], [200, 0]);
  for (const name of ['content-length', 'content-type', 'etag']) t.equal(head.headers[name], headers[name], name);

  const size = bytes.length;
  const ranges = [
    ['bytes=0-3', 0, 4],
    ['bytes=-8', size - 8, size],
    [`bytes=${size - 1}-`, size - 1, size],
    [`bytes=${size >> 1}-${(size >> 1) + 999}`, size >> 1, Math.min(size, (size >> 1) + 1_000)],
  ] as const;
  for (const [range, from, to] of ranges) {
    const part = await file(sluice, path, { range, 'if-range': etag });
    t.equal(part.status, 206, range);
    t.equal(part.headers['content-range'], `bytes ${from}-${to - 1}/${size}`);
    t.ok(part.bytes.equals(bytes.subarray(from, to)), `the bytes of ${range}`);
  }
  const other = await file(sluice, path, { range: 'bytes=0-3', 'if-range': '"another"' });
  t.match([other.status, other.bytes.length], [200, size], 'all of a file that has changed');
  const beyond = await file(sluice, path, { range: `bytes=${size}-` });
  t.match([beyond.status, beyond.headers['content-range']], [416, `bytes */${size}`]);
  t.equal((await file(sluice, path, { 'if-none-match': etag })).status, 304);
}

async function exchange(
  url: string,
  method: string,
  headers: Headers,
  body?: string,
  read: (response: IncomingMessage) => Promise<void> = async () => {},
): Promise<WholeAnswer> {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const sent = request(url, { method, headers: { authorization, ...headers } });
    sent.on('response', resolve).on('error', reject);
    sent.end(body);
  });
  await read(response);
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of response) chunks.push(chunk as Buffer);
  } catch {
    // It was cut off.
  }
  const { statusCode: status = 0, trailers, complete: isComplete } = response;
  return { status, headers: response.headers, trailers, bytes: Buffer.concat(chunks), isComplete };
}
