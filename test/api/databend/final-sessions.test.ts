import t from 'tap';
import { FinalSessions } from '#src/api/databend/final-sessions.js';

const KIB = 1024;
/** Its size is a little more than 2 KiB. */
const text = (mark: string): string => mark.repeat(KIB);

t.test('a session is found by its user and query id', (t) => {
  const sessions = new FinalSessions(100 * KIB);
  sessions.add('ann', 'q', 'hers');
  sessions.add('bob', 'q', 'his');
  t.equal(sessions.find('ann', 'q'), 'hers');
  t.equal(sessions.find('bob', 'q'), 'his');
  t.equal(sessions.find('bob', 'other'), undefined);
  t.equal(sessions.find('cid', 'q'), undefined);
  sessions.delete('ann', 'q');
  sessions.delete('ann', 'q');
  t.equal(sessions.find('ann', 'q'), undefined);
  t.equal(sessions.find('bob', 'q'), 'his');
  t.end();
});

t.test('memory is bounded: the user whose sessions take the most memory loses the oldest', (t) => {
  const sessions = new FinalSessions(10 * KIB);
  sessions.add('ann', 'q', text('a'));
  for (let index = 0; index < 100; index++) sessions.add('bob', `q${index}`, text('b'));
  t.equal(sessions.find('ann', 'q'), text('a'), 'the session of another user stays');
  t.equal(sessions.find('bob', 'q99'), text('b'));
  t.equal(sessions.find('bob', 'q98'), text('b'));
  const kept = Array.from({ length: 100 }, (_, index) => sessions.find('bob', `q${index}`)).filter(
    (found) => found !== undefined,
  );
  t.ok(kept.length <= 4, `${kept.length} sessions of 2 KiB are kept in 10 KiB`);
  t.end();
});

t.test('a session larger than the memory is not kept and displaces no other', (t) => {
  const sessions = new FinalSessions(10 * KIB);
  sessions.add('ann', 'q', text('a'));
  sessions.add('bob', 'q', text('b').repeat(10));
  t.equal(sessions.find('bob', 'q'), undefined);
  t.equal(sessions.find('ann', 'q'), text('a'));
  sessions.add('bob', 'q', text('b'));
  t.equal(sessions.find('bob', 'q'), text('b'));
  t.end();
});

t.test('a reused id refers to the latest session and counts once', (t) => {
  const sessions = new FinalSessions(10 * KIB);
  sessions.add('ann', 'other', text('o'));
  for (let index = 0; index < 100; index++) sessions.add('ann', 'q', text(`${index % 10}`));
  t.equal(sessions.find('ann', 'q'), text('9'));
  t.equal(sessions.find('ann', 'other'), text('o'));
  t.end();
});
