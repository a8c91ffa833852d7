// A TCP proxy that can be broken, between the service and its database, or between a client and the service.

import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { Test } from 'tap';

export interface TcpProxy {
  readonly port: number;
  /** The bytes of both sides that it has dropped since it fell silent. */
  readonly droppedBytes: number;
  /**
   * Lets so many bytes of the server through on each connection from now on, and then nothing more; connections that are
   * open are cut.
   */
  silenceAfter(bytes: number): void;
  /** Forwards nothing any more, in either direction, on open and new connections, and closes none. */
  fallSilent(): void;
  /** Forwards bytes again on new connections; those that were silent are cut. */
  speak(): void;
  /** Resets every connection, towards both sides. */
  resetAll(): void;
}

export interface ProxyOptions {
  /** After how many bytes of the server a new connection is cut, its last bytes having gone through. Default: never. */
  readonly cutAfter?: () => number;
  /** How it is cut. Default: by a reset. */
  readonly cutBy?: () => 'reset' | 'end';
}

/** Starts a proxy on a free port, to a port of this host. It ends with the test. */
export async function startProxy(t: Test, port: number, options: ProxyOptions = {}): Promise<TcpProxy> {
  let bytesMax = Number.POSITIVE_INFINITY;
  let isSilent = false;
  let droppedBytes = 0;
  const pairs = new Set<readonly [Socket, Socket]>();
  const endAll = (end: (socket: Socket) => void): void => {
    for (const pair of pairs) pair.forEach(end);
    pairs.clear();
  };
  const proxyPort = await listen(t, (near) => {
    const far = connect({ port, host: '127.0.0.1', noDelay: true });
    near.setNoDelay(true);
    const pair = [near, far] as const;
    pairs.add(pair);
    let left = bytesMax;
    let untilCut = options.cutAfter?.() ?? Number.POSITIVE_INFINITY;
    const carry = (from: Socket, to: Socket, chunk: Buffer): void => {
      if (isSilent) {
        droppedBytes += chunk.length;
        return;
      }
      if (to.write(chunk)) return;
      from.pause();
      to.once('drain', () => from.resume());
    };
    near.on('data', (chunk) => carry(near, far, chunk));
    far.on('data', (chunk) => {
      const through = chunk.subarray(0, Math.max(0, Math.min(left, untilCut)));
      left -= chunk.length;
      untilCut -= chunk.length;
      if (through.length > 0) carry(far, near, through);
      if (untilCut > 0) return;
      // The bytes before the cut have been written at once, or are dropped by the reset, as on any broken way.
      if (options.cutBy?.() === 'end') near.end();
      else near.resetAndDestroy();
      far.destroy();
    });
    for (const socket of pair) {
      socket.on('error', () => {});
      socket.on('close', () => {
        if (isSilent) return;
        pairs.delete(pair);
        near.destroy();
        far.destroy();
      });
    }
  });
  // A silent proxy leaves the far side open, which would keep the process of the test alive for longer.
  t.teardown(() => endAll((socket) => socket.destroy()));
  return {
    port: proxyPort,
    get droppedBytes() {
      return droppedBytes;
    },
    silenceAfter: (bytes) => {
      bytesMax = bytes;
      endAll((socket) => socket.destroy());
    },
    fallSilent: () => {
      isSilent = true;
    },
    speak: () => {
      isSilent = false;
      endAll((socket) => socket.destroy());
    },
    resetAll: () => endAll((socket) => socket.resetAndDestroy()),
  };
}

/** Listens on a free port of this host until the test ends, and ends what is connected then. */
export async function listen(t: Test, onConnection: (socket: Socket) => void): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    onConnection(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}
