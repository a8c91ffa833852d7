import type { Failure } from '../wire/failures.ts';
import type { Transitions } from '../wire/phase.ts';
import type { Outcome } from '../wire/statement.ts';

/**
 * The state of a statement's execution, as clients see it. Running is left once, for one of the other two. These are final,
 * except that Succeeded becomes Failed if rows are lost before they were handed out.
 */
export type QueryState =
  | { readonly name: 'Running' }
  | { readonly name: 'Succeeded'; readonly outcome: Outcome }
  | { readonly name: 'Failed'; readonly failure: Failure };

export type StateEvent =
  | { readonly type: 'ended'; readonly outcome: Outcome }
  | { readonly type: 'failed'; readonly failure: Failure }
  | { readonly type: 'rows lost'; readonly failure: Failure };

export const running: QueryState = { name: 'Running' };

/** The state after the event. A late event does not change a final state. */
export function nextState(state: QueryState, event: StateEvent): QueryState {
  if (event.type === 'rows lost') return state.name === 'Failed' ? state : { name: 'Failed', failure: event.failure };
  if (state.name !== 'Running') return state;
  switch (event.type) {
    case 'ended':
      return { name: 'Succeeded', outcome: event.outcome };
    case 'failed':
      return { name: 'Failed', failure: event.failure };
  }
}

/**
 * Where a query is in its life. In `queued` and `running` its state is Running, in the later phases Succeeded or Failed.
 *
 *     queued ──▶ running ──▶ draining ──▶ complete ──▶ removed
 *      │  ▲         │ │                    ▲  ▲
 *      │  └─────────┘ └────────────────────┘  │      the connection was lost before the statement was sent;
 *      └──────────────────────────────────────┘      no rows are on disk; cancelled or refused
 */
export type QueryPhase =
  /** The statement waits for a connection, or to be sent on it. */
  | 'queued'
  | 'running'
  /** The statement has ended, and rows of it on disk are still to come. */
  | 'draining'
  /** Nothing more is reported of the statement. */
  | 'complete'
  | 'removed';

export const phaseTransitions: Transitions<QueryPhase> = {
  queued: ['running', 'complete'],
  running: ['queued', 'draining', 'complete'],
  draining: ['complete'],
  complete: ['removed'],
  removed: [],
};
