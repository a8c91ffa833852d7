import { setTimeout as sleep } from 'node:timers/promises';
import mysql from 'mysql2';

export interface Login {
  readonly user?: string;
  readonly password?: string;
  readonly database?: string;
}

/**
 * Runs statements on a connection of their own. Returns one line for each row of all results, with tabs between the cells, as the
 * command line clients print them with --batch --raw --skip-column-names.
 * @throws Error with the server's message
 */
export async function runSql(socketPath: string, statements: string, login: Login): Promise<string> {
  const stopsAt = performance.now() + unreadableMsMax;
  for (;;) {
    try {
      return await runOnce(socketPath, statements, login);
    } catch (error) {
      const isUnreadable = /^ERROR 3854 /.test((error as Error).message) && /processlist/i.test(statements);
      if (!isUnreadable || performance.now() > stopsAt) throw error;
      await sleep(20);
    }
  }
}

/** MySQL's process list cannot be read while another test runs a statement with an emoji (error 3854). */
const unreadableMsMax = 30_000;

function runOnce(socketPath: string, statements: string, login: Login): Promise<string> {
  const { user = 'root', password = '', database = '' } = login;
  const connection = mysql.createConnection({
    ...{ socketPath, user, password, database },
    charset: 'utf8mb4',
    multipleStatements: true,
    rowsAsArray: true,
    // Every cell as the bytes that the server sends.
    typeCast: (field) => field.buffer(),
  });
  return new Promise<string>((resolve, reject) => {
    const lines: string[] = [];
    const fail = (error: mysql.QueryError): void => {
      reject(new Error(`ERROR ${error.errno} (${error.sqlState}): ${error.message}`));
      connection.destroy();
    };
    connection.on('error', fail);
    const query = connection.query(statements);
    query.on('error', fail);
    query.on('result', (row) => {
      if (Array.isArray(row)) lines.push(row.map(printed).join('\t'));
    });
    query.on('end', () => {
      resolve(lines.join('\n'));
      // Without COM_QUIT the server would count an aborted connection.
      connection.end();
    });
  });
}

function printed(cell: unknown): string {
  return cell === null ? 'NULL' : (cell as Buffer).toString();
}
