/**
 * The least that any program on mysql2 must do, as a process driven by lines on its standard input:
 * `rows SQL` reads the result's bytes off the socket and throws them away; `loop SECONDS SQL` runs the statement on one
 * connection over and over. Answers with one line of JSON.
 */
import { createInterface } from 'node:readline';
import mysql from 'mysql2';

const uri = process.argv[2] as string;
const connection = mysql.createConnection({ uri });

/** The parts of the driver that have no type. */
interface Inside {
  packetParser: { execute(chunk: Buffer): void };
}

async function readAway(sql: string): Promise<object> {
  // One connection for each result, as the driver never gets to see that the result has ended.
  const reader = mysql.createConnection({ uri });
  await new Promise((resolve) => reader.once('connect', resolve));
  const started = performance.now();
  let bytes = 0;
  let tail: Buffer = Buffer.alloc(0);
  await new Promise<void>((resolve, reject) => {
    reader.query(sql).on('error', reject);
    (reader as unknown as Inside).packetParser.execute = (chunk) => {
      bytes += chunk.length;
      tail = Buffer.concat([tail, chunk.subarray(-9)]).subarray(-9);
      // The EOF packet that ends the rows: five bytes long, its first one 0xfe. One like it ends the columns.
      if (bytes > 4096 && tail[0] === 5 && tail[1] === 0 && tail[2] === 0 && tail[4] === 0xfe) resolve();
    };
  });
  reader.destroy();
  return { wallMs: performance.now() - started, bytes };
}

async function loop(seconds: number, sql: string): Promise<object> {
  const latencies: number[] = [];
  const started = performance.now();
  while (performance.now() - started < seconds * 1_000) {
    const before = performance.now();
    await new Promise<void>((resolve, reject) => {
      connection.query(sql, (error) => (error ? reject(error) : resolve()));
    });
    latencies.push(performance.now() - before);
  }
  return { wallMs: performance.now() - started, latencies };
}

for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...rest] = line.split(' ');
  const result =
    command === 'rows' ? await readAway(rest.join(' ')) : await loop(Number(rest[0]), rest.slice(1).join(' '));
  process.stdout.write(`${JSON.stringify(result)}\n`);
}
connection.destroy();
