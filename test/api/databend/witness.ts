// A proxy between a client and the service that records their requests and answers.

import { createServer, type IncomingHttpHeaders, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';

export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  /** The status of the answer; 0 until it arrives. */
  status: number;
  /** The content type of the answer; empty until it arrives. */
  type: string;
}

export interface Witness {
  readonly port: number;
  readonly seen: readonly Seen[];
  /**
   * Does not pass on the answer to the next request of that method and path, and closes the client's connection instead.
   * @param afterMs the delay of the close; default: when the answer has arrived
   */
  cutNext(method: string, path: RegExp, afterMs?: number): void;
}

/** Starts a witness on a free port. It stops with the test. */
export async function startWitness(t: Test, target: string): Promise<Witness> {
  const seen: Seen[] = [];
  let cut: { readonly method: string; readonly path: RegExp; readonly afterMs: number | undefined } | null = null;
  const server = createServer((incoming, outgoing) => {
    const { method = '', url: path = '', headers } = incoming;
    const chunks: Buffer[] = [];
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const body = Buffer.concat(chunks);
      const entry = { method, path, headers, body: body.toString(), status: 0, type: '' };
      seen.push(entry);
      const isCut = cut !== null && cut.method === method && cut.path.test(path);
      if (isCut && cut?.afterMs !== undefined) setTimeout(() => incoming.socket.destroy(), cut.afterMs);
      if (isCut) cut = null;
      const onward = request(target + path, { method, headers, agent: false }, (answer) => {
        entry.status = answer.statusCode ?? 0;
        entry.type = answer.headers['content-type'] ?? '';
        if (isCut) {
          answer.resume();
          answer.on('end', () => incoming.socket.destroy());
          return;
        }
        outgoing.writeHead(entry.status, answer.headers);
        answer.pipe(outgoing);
      });
      // When either side closes, the other is closed too, as on a direct connection.
      onward.on('error', () => incoming.socket.destroy());
      outgoing.on('close', () => onward.destroy());
      onward.end(body);
    });
  }).listen(0, '127.0.0.1');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  await new Promise((resolve) => server.once('listening', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    seen,
    cutNext: (method, path, afterMs) => {
      cut = { method, path, afterMs };
    },
  };
}
