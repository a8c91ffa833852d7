import t from 'tap';
import { Cors } from '#src/http/cors.js';

t.test('origins are scheme://host[:port], or *; anything else is refused in one line', async (t) => {
  for (const option of [
    '*',
    ' * ',
    'https://a.example',
    'http://localhost:3000, https://a.example:8443',
    'http://[::1]:8000',
    'chrome-extension://abcdefgh',
  ]) {
    t.doesNotThrow(() => new Cors(option), option);
  }
  for (const option of [
    'a.example',
    'https://a.example/',
    'https://a.example/path',
    'https://a.example?x',
    'https://user@a.example',
    'https://*.example',
    'https://a.example,',
    'https://a.example,*',
    'https://a.example https://b.example',
    'https://a.example:99999',
    'null',
    ',',
    '//a.example',
    'https://a\n.example',
  ]) {
    t.throws(() => new Cors(option), { message: /^--cors_origin has '[^']*'; it must be a list of .*$/s }, option);
  }
});
