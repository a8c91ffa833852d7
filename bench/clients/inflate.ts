import { type Agent, request } from 'node:http';
import { createGunzip } from 'node:zlib';
import { authorization } from '../database.ts';
import type { Reply } from './http-connection.ts';

const tailBytesMax = 4_096;

/**
 * One request that asks for gzip. The body is inflated, as the next page's URI is in it, and thrown away.
 * @returns the length of the body as it was sent, and the end of the text
 */
export function callInflating(agent: Agent, url: string, body?: object): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = request(url, {
      agent,
      method: body === undefined ? 'GET' : 'POST',
      headers: {
        'Content-Type': 'application/json',
        'Accept-Encoding': 'gzip',
        Authorization: authorization(),
      },
    });
    sent.on('error', reject);
    sent.on('response', (response) => {
      const encoding = response.headers['content-encoding'];
      if (response.statusCode !== 200) {
        reject(new Error(`status ${response.statusCode}`));
        response.resume();
        return;
      }
      if (encoding !== 'gzip') {
        // The answer to final_uri has no body to compress.
        if (response.headers['content-length'] !== '0') {
          reject(new Error(`gzip was asked for, and the answer's Content-Encoding is ${encoding ?? 'not there'}`));
        }
        response.resume().on('end', () => resolve({ bytes: 0, tail: '' }));
        return;
      }
      let bytes = 0;
      let tail: Buffer = Buffer.alloc(0);
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      const text = response.on('error', reject).pipe(createGunzip({ chunkSize: 64 * 1024 }));
      text.on('error', reject);
      text.on('data', (chunk: Buffer) => {
        tail = chunk.length >= tailBytesMax ? chunk : Buffer.concat([tail.subarray(-tailBytesMax), chunk]);
      });
      text.on('end', () => resolve({ bytes, tail: tail.subarray(-tailBytesMax).toString() }));
    });
    sent.end(body === undefined ? undefined : JSON.stringify(body));
  });
}
