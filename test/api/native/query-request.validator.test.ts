import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import t from 'tap';

const script = fileURLToPath(new URL('../../../../scripts/validators.mjs', import.meta.url));

t.test('the validator is the one that its schema generates', async (t) => {
  const check = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' });
  t.equal(check.stderr, '');
  t.equal(check.status, 0);
});
