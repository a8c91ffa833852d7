import type { Observe, ServiceEvent } from './events.ts';

/** A lasting condition that may fail many requests. It is logged when it begins and when it ends. */
export type TroubleName =
  | 'database_unavailable'
  | 'database_full'
  | 'database_login_refused'
  | 'out_of_descriptors'
  | 'http_connections_full'
  | 'logins_failing';

export interface TroubleOptions {
  /** The trouble ends when nothing has failed for this long. */
  readonly quietMs: number;
  /** Checks before the end of the trouble whether it is over. */
  readonly isOver?: () => Promise<boolean>;
}

export type TroublesOptions = Readonly<Record<TroubleName, TroubleOptions>>;

interface Trouble {
  readonly beganAt: number;
  readonly timer: NodeJS.Timeout;
  failures: number;
  failedAt: number;
  isAsking: boolean;
}

const descriptorErrors = new Set(['EMFILE', 'ENFILE']);

/** Turns failures of the same cause into two events: one at the first, and one when there were no more for a while. */
export class Troubles {
  readonly #options: TroublesOptions;
  readonly #observe: Observe;
  readonly #active = new Map<TroubleName, Trouble>();
  #isClosed = false;

  constructor(options: TroublesOptions, observe: Observe) {
    this.#options = options;
    this.#observe = observe;
  }

  has(name: TroubleName): boolean {
    return this.#active.has(name);
  }

  readonly observe: Observe = (event) => {
    const name = troubleOf(event);
    if (name !== null && !this.#isClosed) this.#add(name, reasonOf(event));
  };

  /** Emits no more events: failures while the service stops are no trouble. */
  close(): void {
    this.#isClosed = true;
    for (const { timer } of this.#active.values()) clearInterval(timer);
    this.#active.clear();
  }

  #add(name: TroubleName, reason: string): void {
    const now = performance.now();
    const known = this.#active.get(name);
    if (known !== undefined) {
      known.failures++;
      known.failedAt = now;
      return;
    }
    const timer = setInterval(() => void this.#check(name), this.#options[name].quietMs / 2).unref();
    this.#active.set(name, { beganAt: now, timer, failures: 1, failedAt: now, isAsking: false });
    this.#observe({ type: 'trouble_began', trouble: name, reason });
  }

  async #check(name: TroubleName): Promise<void> {
    const trouble = this.#active.get(name);
    const { quietMs, isOver } = this.#options[name];
    const isQuiet = (): boolean => trouble !== undefined && performance.now() - trouble.failedAt >= quietMs;
    if (trouble === undefined || trouble.isAsking || !isQuiet()) return;
    if (isOver !== undefined) {
      trouble.isAsking = true;
      const over = await isOver().catch(() => false);
      trouble.isAsking = false;
      if (!over || !isQuiet() || this.#active.get(name) !== trouble) return;
    }
    clearInterval(trouble.timer);
    this.#active.delete(name);
    const secs = Math.round((performance.now() - trouble.beganAt) / 100) / 10;
    this.#observe({ type: 'trouble_ended', trouble: name, failures: trouble.failures, secs });
  }
}

/** Whether the process or the system has no free file descriptor. */
export function isOutOfDescriptors(error: Error): boolean {
  return descriptorErrors.has((error as NodeJS.ErrnoException).code ?? '');
}

function troubleOf(event: ServiceEvent): TroubleName | null {
  switch (event.type) {
    case 'connect_failed':
      return event.isOutOfDescriptors ? 'out_of_descriptors' : 'database_unavailable';
    case 'database_full':
      return 'database_full';
    case 'database_login_refused':
      return 'database_login_refused';
    case 'descriptors_exhausted':
      return 'out_of_descriptors';
    case 'accept_failed':
      return isOutOfDescriptors(event.error) ? 'out_of_descriptors' : null;
    case 'http_connection_refused':
    case 'http_connection_replaced':
      return 'http_connections_full';
    case 'login_failed':
      return 'logins_failing';
    default:
      return null;
  }
}

function reasonOf(event: ServiceEvent): string {
  if ('reason' in event) return event.reason;
  return 'error' in event ? event.error.message : '';
}
