import type { Failure, Outcome } from '../wire/statement.ts';

/** The state of a statement's execution. Running is left once, for one of the other two, which are final. */
export type QueryState =
  | { readonly name: 'Running' }
  | { readonly name: 'Succeeded'; readonly outcome: Outcome }
  | { readonly name: 'Failed'; readonly failure: Failure };

export type StateEvent =
  | { readonly type: 'ended'; readonly outcome: Outcome }
  | { readonly type: 'failed'; readonly failure: Failure };

export const running: QueryState = { name: 'Running' };

/** The state after the event; the same one if it was final, since what comes late changes nothing. */
export function nextState(state: QueryState, event: StateEvent): QueryState {
  if (state.name !== 'Running') return state;
  switch (event.type) {
    case 'ended':
      return { name: 'Succeeded', outcome: event.outcome };
    case 'failed':
      return { name: 'Failed', failure: event.failure };
  }
}
