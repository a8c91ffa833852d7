import type { Config } from './config/config.ts';
import { prepareDataDir, removeSpillFiles } from './data-dir.ts';
import { loweredLimits, withinDescriptors } from './descriptor-limits.ts';
import { descriptorsMax, watchDescriptors } from './descriptors.ts';
import { type EmbeddedDatabase, startEmbedded } from './embedded/mariadb.ts';
import type { Observe } from './events.ts';
import { readCertificate } from './http/certificate.ts';
import { Cors } from './http/cors.ts';
import { HostNames } from './http/host-names.ts';
import { checkAddress } from './http/listen.ts';
import type { HttpSecurity } from './http/server.ts';
import { buildParts, journalFolder, type Parts, resultsFolder, spillFolder } from './parts.ts';

/**
 * How long the kills of an abort may take. MariaDB can take two seconds to answer a kill, and a busy machine longer. If the
 * database does not answer, its statements are left to the next process (see `Orphans`).
 */
const abortMs = 10_000;
/** A stopping server answers requests for at least this long, so that clients get an answer and not a closed connection. */
const noticeMs = 1_000;
/** How long the answers in progress may take after the server has stopped accepting connections. */
const answerMs = 2_000;

const unprotected =
  'passwords, statements and rows can be read on the network: give --tls_cert and --tls_key, or listen on 127.0.0.1 ' +
  'behind a proxy with TLS';

/** The running server. It starts and stops the parts. */
export class Service {
  /** Where it listens, as a URL. */
  readonly url: string;
  readonly #config: Config;
  readonly #observe: Observe;
  readonly #parts: Parts;
  readonly #stopDescriptorChecks: () => void;
  #reloaded: Promise<void> = Promise.resolve();

  private constructor(config: Config, observe: Observe, parts: Parts, url: string) {
    this.url = url;
    this.#config = config;
    this.#observe = observe;
    this.#parts = parts;
    this.#stopDescriptorChecks = watchDescriptors(parts.observe);
  }

  /** The private database; null: none. */
  get embedded(): EmbeddedDatabase | null {
    return this.#parts.embedded;
  }

  /**
   * @param signal stops a start that is in progress
   * @throws Error with one line that gives the reason
   */
  static async start(given: Config, observe: Observe, signal: AbortSignal): Promise<Service> {
    const { listening, database, disk } = given;
    // Errors in these options are reported before the private database is made, which takes seconds.
    const security: HttpSecurity = {
      certificate: listening.tlsCert === '' ? null : await readCertificate(listening.tlsCert, listening.tlsKey),
      hostNames: new HostNames(listening.httpHandlerHost, listening.httpHostNames),
      cors: listening.corsOrigin === '' ? null : new Cors(listening.corsOrigin),
    };
    prepareDataDir(disk.dataDir, [spillFolder(disk), journalFolder(disk), resultsFolder(disk)]);
    let embedded: EmbeddedDatabase | null = null;
    let target = database.mysqlUrl;
    if (target === null) {
      await checkAddress(listening);
      embedded = await startEmbedded({
        dataDir: disk.dataDir,
        startTimeoutMs: database.embeddedStartMs,
        signal,
        observe,
      });
      const { socketPath, user, password, database: name } = embedded;
      target = { address: { socketPath }, name, user, password };
    }
    removeSpillFiles(spillFolder(disk));
    const config = withinDescriptors(given, descriptorsMax());
    const parts = buildParts(config, observe, target, embedded, security);
    try {
      await parts.engine.restore();
      const url = await parts.server.listen();
      observe({ type: 'listening', address: url });
      for (const event of loweredLimits(given, config)) observe(event);
      if (security.certificate === null && !parts.server.isLoopback) {
        observe({ type: 'listening_unprotected', address: url, advice: unprotected });
      }
      // If the database is unavailable, or refuses the user of --mysql_url, that is logged at the start.
      void parts.readiness.whyNot().catch(() => {});
      return new Service(config, observe, parts, url);
    } catch (error) {
      parts.orphans?.close(true);
      parts.leases.close();
      await parts.workers[Symbol.asyncDispose]();
      await embedded?.stop();
      throw error;
    }
  }

  /** Reads the certificate and its key again. If they cannot be used, the server keeps those that it has. */
  reload(): Promise<void> {
    // One at a time, so that the files that were read last are used.
    this.#reloaded = this.#reloaded.then(() => this.#reload());
    return this.#reloaded;
  }

  async #reload(): Promise<void> {
    const { tlsCert, tlsKey } = this.#config.listening;
    if (tlsCert === '') {
      this.#observe({
        type: 'nothing_reloaded',
        reason: 'there is no --tls_cert; other options are read at the start',
      });
      return;
    }
    try {
      this.#parts.server.renew(await readCertificate(tlsCert, tlsKey));
      this.#observe({ type: 'certificate_renewed', file: tlsCert });
    } catch (error) {
      this.#observe({ type: 'certificate_refused', reason: (error as Error).message });
    }
  }

  /** Lets results be read for a while, cancels the rest, and ends the server. */
  async stop(): Promise<void> {
    const { drainMs, drainIdleMs } = this.#config.stopping;
    const { engine, server, queries } = this.#parts;
    engine.drain();
    server.drain();
    this.#observe({ type: 'draining', queries: queries.size, drainMs });
    await Promise.all([queries.read(drainMs, drainIdleMs), server.empty(Math.min(noticeMs, drainMs))]);
    await this.#end(this.#config.database.killTimeoutMs, answerMs);
  }

  /** Cancels all statements and ends the server, without waiting for results to be read. */
  async abort(): Promise<void> {
    this.#parts.engine.drain();
    await this.#end(abortMs, 0);
  }

  async #end(killMs: number, answerMs: number): Promise<void> {
    const parts = this.#parts;
    parts.troubles.close();
    this.#stopDescriptorChecks();
    // The queue is closed first: otherwise each statement that is cancelled would start the next one.
    parts.queue.close();
    parts.queries.cancelAll();
    // Before the connections are closed: the journal would forget those whose statement may still run.
    parts.orphans?.close(await parts.leases.settled(killMs));
    parts.sessions.endAll('the server is stopping');
    parts.leases.close();
    await parts.server.close(answerMs);
    // Until now, clients could poll their queries.
    await parts.results.close();
    parts.queries.close();
    await parts.resultReader[Symbol.asyncDispose]();
    await parts.bodyParser[Symbol.asyncDispose]();
    await parts.workers[Symbol.asyncDispose]();
    await parts.embedded?.stop();
    this.#observe({ type: 'stopped' });
  }
}
