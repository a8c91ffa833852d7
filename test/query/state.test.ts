import t from 'tap';
import { nextState, type QueryState, running, type StateEvent } from '#src/query/state.js';
import { failureOf } from '#src/wire/failures.js';

const outcome = { affectedRows: '3', lastInsertId: null, warnings: 1 };
const failure = failureOf({ code: 1064, sqlstate: '42000', message: 'no' }, 'rolled_back');
const ended: StateEvent = { type: 'ended', outcome };
const failed: StateEvent = { type: 'failed', failure };
const succeededState: QueryState = { name: 'Succeeded', outcome: { ...outcome, affectedRows: '4' } };
const failedState: QueryState = { name: 'Failed', failure: { ...failure, code: 90002 } };

t.test('a running query succeeds when its statement ends, and keeps the outcome', async (t) => {
  t.strictSame(nextState(running, ended), { name: 'Succeeded', outcome });
});

t.test('a running query fails when its statement fails, and keeps the failure', async (t) => {
  t.strictSame(nextState(running, failed), { name: 'Failed', failure });
});

t.test('a final state is left by no event', async (t) => {
  for (const state of [succeededState, failedState]) {
    for (const event of [ended, failed]) t.equal(nextState(state, event), state, `${state.name}, ${event.type}`);
  }
});
