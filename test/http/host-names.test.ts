import t from 'tap';
import { HostNames } from '#src/http/host-names.js';

const own = ['localhost', 'LOCALHOST:8000', 'localhost.', 'app.localhost:8000', '127.0.0.1', '127.0.0.1:8000'];
const addresses = ['127.8.9.10:80', '10.0.0.5:8000', '192.0.2.1', '[::1]', '[::1]:8000', '[2001:db8::7]:8000'];
const foreign = [
  ...['attacker.example', 'attacker.example:8000', 'localhost.attacker.example', 'notlocalhost', '127.0.0.1.nip.io'],
  ...['', ' ', ':8000', 'a b', '[attacker.example]', '[::1', '::1', '127.1', '0x7f.0.0.1', '2130706433', '\xff'],
  ...[
    'localhost:8000:8000',
    'localhost:x',
    'user@localhost',
    'localhost/',
    'localhost,attacker.example',
    '[127.0.0.1]',
  ],
];

t.test('C: loopback names and IP addresses are accepted as Host, other names are not', async (t) => {
  const names = new HostNames('127.0.0.1', '');
  for (const host of [...own, ...addresses]) t.ok(names.allows(host), host);
  for (const host of foreign) t.notOk(names.allows(host), host);
});

t.test(
  'C: --http_handler_host and the names in --http_host_names are accepted, and * accepts every name',
  async (t) => {
    const names = new HostNames('Sluice.Internal', ' sql.example ,SQL2.example., sluice_1');
    for (const host of [...own, 'sluice.internal:8000', 'SQL.example', 'sql.example.', 'sql2.example:1', 'sluice_1']) {
      t.ok(names.allows(host), host);
    }
    for (const host of [...foreign, 'a.sql.example', 'example']) t.notOk(names.allows(host), host);
    const every = new HostNames('127.0.0.1', ' * ');
    for (const host of [...own, ...foreign]) t.ok(every.allows(host), host);
  },
);

t.test('C: an invalid host name is refused in one line that names the option', async (t) => {
  for (const option of [
    'https://a.example',
    'a.example:8000',
    'a.example,',
    '*.example',
    '*,a',
    'a b',
    'a/b',
    '-a',
    'é',
  ]) {
    t.throws(
      () => new HostNames('127.0.0.1', option),
      { message: /^--http_host_names has '[^']*'; it must be a comma-separated list of host names .*$/ },
      option,
    );
  }
});
