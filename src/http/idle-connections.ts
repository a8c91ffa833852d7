import type { Socket } from 'node:net';
import { addressOf } from './answer.ts';

/** The connections of the clients with one address. */
interface ClientAddress {
  readonly name: string;
  connections: number;
  /** Those without a request under way; the one that has been idle for the longest is the first. */
  readonly idle: Set<ClientConnection>;
}

/** A connection that is counted. */
export interface ClientConnection {
  readonly address: ClientAddress;
  /** The socket to be destroyed. */
  socket: Socket;
  /** For `HttpConnections`: the client's address and port until HTTP is read from the connection; then empty. */
  peer: string;
  /** Grows with time. */
  idleSince: number;
  isClosed: boolean;
}

/** Finds the connection that can best be closed for another one. A connection is idle until the head of a request has arrived. */
export class IdleConnections {
  readonly #addresses = new Map<string, ClientAddress>();
  #lastIdleSince = 0;
  #size = 0;

  /** The connections that are counted, idle or not. */
  get size(): number {
    return this.#size;
  }

  /** Adds a connection, which is idle. */
  add(socket: Socket): ClientConnection {
    const name = addressOf(socket);
    let address = this.#addresses.get(name);
    if (address === undefined) {
      address = { name, connections: 0, idle: new Set() };
      this.#addresses.set(name, address);
    }
    address.connections++;
    this.#size++;
    const connection: ClientConnection = { address, socket, peer: '', idleSince: 0, isClosed: false };
    this.idle(connection);
    return connection;
  }

  remove(connection: ClientConnection): void {
    if (connection.isClosed) return;
    connection.isClosed = true;
    const { address } = connection;
    address.idle.delete(connection);
    address.connections--;
    this.#size--;
    if (address.connections === 0) this.#addresses.delete(address.name);
  }

  busy(connection: ClientConnection): void {
    connection.address.idle.delete(connection);
  }

  idle(connection: ClientConnection): void {
    if (connection.isClosed) return;
    connection.idleSince = ++this.#lastIdleSince;
    connection.address.idle.add(connection);
  }

  /**
   * The connection that has been idle for the longest, of the address that has the most connections, so that nobody loses one
   * because of a client who holds many. Clients behind one proxy have one address.
   */
  longestIdle(): ClientConnection | undefined {
    let most = 0;
    let longest: ClientConnection | undefined;
    for (const { connections, idle } of this.#addresses.values()) {
      if (connections < most) continue;
      const [first] = idle;
      if (first === undefined) continue;
      if (longest === undefined || connections > most || first.idleSince < longest.idleSince) longest = first;
      most = connections;
    }
    return longest;
  }
}
