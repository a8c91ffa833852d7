import { dialectNames } from '../../api/index.ts';
import { ConfigError } from '../config-error.ts';
import { choice, count, parsedText, text } from '../option.ts';

export const listening = {
  title: 'Listening',
  options: {
    http_handler_host: parsedText({
      placeholder: 'ADDRESS',
      default: '127.0.0.1',
      parse: withoutBrackets,
      help: 'Address to listen on.',
    }),
    http_handler_port: count('port', {
      default: 8000,
      min: 0,
      max: 65_535,
      help: 'Port to listen on. 0 chooses a free port.',
    }),
    http_host_names: text({
      placeholder: 'NAMES',
      default: '',
      help:
        'Host names that requests may have in their Host header, comma-separated. * allows every name. localhost, IP ' +
        'addresses and --http_handler_host are always allowed. A request with another name gets 421.',
    }),
    tls_cert: text({
      placeholder: 'FILE',
      default: '',
      help: 'Certificate chain (PEM) for HTTPS. Without it, the server speaks plain HTTP.',
    }),
    tls_key: text({ placeholder: 'FILE', default: '', help: 'Private key (PEM) of --tls_cert.' }),
    cors_origin: text({
      placeholder: 'ORIGINS',
      default: '',
      help:
        'Web origins whose pages may read answers, comma-separated. * allows every origin. Without it, pages of other ' +
        'origins cannot read answers.',
    }),
    dialect: choice({
      choices: ['auto', ...dialectNames],
      default: 'auto',
      help: 'Dialect of requests and answers. auto chooses it by the headers of each request.',
    }),
  },
} as const;

function withoutBrackets(host: string): string {
  const [, address] = /^\[(.*)\]$/.exec(host) ?? [];
  if (address === undefined) return host;
  throw new ConfigError(`--http_handler_host is '${host}'; leave the brackets out: ${address}`);
}
