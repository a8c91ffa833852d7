import t from 'tap';
import { nearest } from '#src/nearest.js';

t.test('D4: the nearest word is the one with the fewest letters changed', async (t) => {
  const words = ['drain_secs', 'ping_secs', 'read_only', 'tls_key', 'tls_cert', 'http_handler_port'];
  const cases: [string, string | null][] = [
    ['drain_secs', 'drain_secs'],
    ['drian_secs', 'drain_secs'],
    ['drainsecs', 'drain_secs'],
    ['pin_secs', 'ping_secs'],
    ['pings_ecs', 'ping_secs'],
    ['tls_kye', 'tls_key'],
    ['tls_ctre', 'tls_cert'],
    ['port', 'http_handler_port'],
    ['server_http_handler_port', 'http_handler_port'],
    ['listening_handler_port', 'http_handler_port'],
    ['listening_port', null],
    ['secs', null],
    ['', null],
    ['x', null],
    ['something_else', null],
  ];
  for (const [typed, word] of cases) t.equal(nearest(typed, words), word, typed);
});
