import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import type { Config } from '../config/config.ts';

export type ListenOptions = Pick<Config['listening'], 'httpHandlerHost' | 'httpHandlerPort'>;

/**
 * Starts to accept connections.
 * @throws Error of one line with advice
 */
export async function listen(server: Server, options: ListenOptions): Promise<void> {
  const { httpHandlerHost: host, httpHandlerPort: port } = options;
  server.listen(port, host);
  try {
    await once(server, 'listening');
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    throw new Error(`${message}${adviceOn(code, port)}`, { cause: error });
  }
}

/** Throws what `listen` would throw. Nothing listens afterwards. */
export async function checkAddress(options: ListenOptions): Promise<void> {
  const server = createServer((socket) => socket.destroy());
  await listen(server, options);
  server.close();
  await once(server, 'close');
}

/** Advice on an address that the server cannot listen on. */
function adviceOn(code: string | undefined, port: number): string {
  switch (code) {
    case 'EADDRINUSE':
      return `; another program listens on port ${port}: choose another port by --http_handler_port`;
    case 'EACCES':
      return `; this user may not listen on port ${port}: choose another port by --http_handler_port`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return '; --http_handler_host must be an address or a name of this machine';
    default:
      return '';
  }
}
