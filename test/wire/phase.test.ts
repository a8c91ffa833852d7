import t from 'tap';
import { nextPhase, type Transitions } from '#src/wire/phase.js';

const transitions: Transitions<'open' | 'closed'> = { open: ['closed'], closed: [] };

t.test('a transition of the table is made, and any other throws', async (t) => {
  t.equal(nextPhase(transitions, 'open', 'closed'), 'closed');
  t.throws(() => nextPhase(transitions, 'closed', 'open'), /impossible transition: closed to open/);
  t.throws(() => nextPhase(transitions, 'open', 'open'), /impossible transition: open to open/);
});
