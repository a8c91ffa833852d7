import t from 'tap';
import { effectOf } from '#src/wire/effect.js';
import { type Cause, causes, failureOf, interrupted, outcomeOfError, undelivered } from '#src/wire/failures.js';

const lasting: Cause = { code: 1, sqlstate: 'HY000', message: 'no' };
const passing: Cause = { ...lasting, isPassing: true };
const reported = { code: 1, sqlstate: 'HY000', message: 'no' };

t.test('a failure may be retried if it has left nothing and will pass', async (t) => {
  for (const [outcome, leftNothing] of [
    ['not_started', true],
    ['rolled_back', true],
    ['committed', false],
    ['unknown', false],
  ] as const) {
    t.strictSame(failureOf(passing, outcome), { ...reported, outcome, retryable: leftNothing });
    t.strictSame(failureOf(lasting, outcome), { ...reported, outcome, retryable: false });
  }
});

t.test('a read that is interrupted has left nothing, and may be sent again if it is of no session', async (t) => {
  t.strictSame(interrupted(passing, 'read', true), { ...reported, outcome: 'rolled_back', retryable: true });
  t.strictSame(interrupted(passing, 'read', false), { ...reported, outcome: 'rolled_back', retryable: false });
  t.strictSame(interrupted(lasting, 'read', true), { ...reported, outcome: 'rolled_back', retryable: false });
});

t.test('of anything else that is interrupted nobody knows, and that is said', async (t) => {
  for (const sql of ['INSERT INTO t VALUES (1)', 'COMMIT', 'CALL p()', 'DROP TABLE t', 'nonsense', '']) {
    for (const isStandalone of [true, false]) {
      t.strictSame(interrupted(passing, effectOf(sql), isStandalone), {
        ...reported,
        message: 'no; whether the statement took effect is unknown',
        outcome: 'unknown',
        retryable: false,
      });
    }
  }
});

t.test('a statement whose rows are lost after it has succeeded is committed, unless it was a read', async (t) => {
  t.strictSame(undelivered(passing, 'atomic'), {
    ...reported,
    outcome: 'committed',
    retryable: false,
  });
  t.strictSame(undelivered(passing, 'compound'), { ...reported, outcome: 'committed', retryable: false });
  t.strictSame(undelivered(passing, 'read'), { ...reported, outcome: 'rolled_back', retryable: true });
});

t.test('what the database says has failed it has taken back, if it takes back statements of that kind', async (t) => {
  t.equal(outcomeOfError('read'), 'rolled_back');
  t.equal(outcomeOfError('atomic'), 'rolled_back');
  t.equal(outcomeOfError('partial'), 'unknown');
  t.equal(outcomeOfError('compound'), 'unknown');
});

t.test('our causes have the codes of the protocol, and say which of them pass', async (t) => {
  for (const [cause, code, passes, words] of [
    [causes.noSuchSession('x'), 90001, false, /'x'/],
    [causes.cancelled(), 90002, true, /by the client/],
    [causes.hungUp(5), 90002, true, /5 s/],
    [causes.shuttingDown(), 90002, true, /stopping/],
    [causes.expired(60), 90003, true, /60 s/],
    [causes.sessionQueueFull(8), 90004, true, /8 statements.*--session_queue_max/],
    [causes.statementTimeout(3, true), 90005, false, /3 s \(its timeout_secs\)/],
    [causes.statementTimeout(3, false), 90005, false, /3 s \(--statement_timeout_secs\)/],
    [causes.queueTimeout(30), 1040, true, /30 s.*--queue_wait_secs/],
    [causes.connectionLost('cut'), 90006, true, /cut/],
    [causes.sessionLost('cut'), 90006, false, /before the statement was sent.*cut/],
    [causes.rowTooLarge(9), 90007, false, /9 bytes.*--row_bytes_max/],
    [causes.manyResultSets(), 90008, false, /more than one/],
    [causes.notUtf8(), 90011, false, /UTF-8.*character_set_results/],
    [causes.localInfile(), 90009, false, /LOAD DATA LOCAL/],
    [causes.storageFull(7), 90010, true, /7 bytes.*--results_bytes_max/],
    [causes.spillFailed('full'), 90010, true, /--data_dir.*full/],
  ] as const) {
    t.match(cause, { code, message: words, sqlstate: code === 1040 ? '08004' : 'HY000' });
    t.equal(cause.isPassing ?? false, passes, cause.message);
  }
});
