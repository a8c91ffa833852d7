// Reads what tap writes while the tests run: shows one line for each test file, and under it every assertion that failed
// with what tap knows about it, and what the tests have measured, and counts the assertions.

import { createRequire } from 'node:module';
import { inspect } from 'node:util';

// The parser comes with tap, whose own dependency it is.
const { Parser } = createRequire(createRequire(import.meta.url).resolve('tap'))('tap-parser');

/** A stream that takes TAP. It adds to the counts, prints the report, and emits "complete" when all has been read. */
export function createReport(counts, print) {
  let file = emptyFile();
  const parser = new Parser();
  const flush = (title) => {
    const { passed, failed, skipped, failures, measured } = file;
    const mark = failed > 0 ? 'FAILED' : 'ok    ';
    print(`${mark} ${title}: ${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}\n`);
    measured.forEach(print);
    failures.forEach(print);
    file = emptyFile();
  };

  followAssertions(parser, [], (result, names) => {
    const outcome = result.skip || result.todo ? 'skipped' : result.ok ? 'passed' : 'failed';
    counts[outcome]++;
    file[outcome]++;
    if (outcome === 'failed') file.failures.push(failureText(result, names));
  });
  followComments(parser, [], (comment, names) => {
    if (/^# measured: /.test(comment))
      file.measured.push(`       ${[...names.slice(1), comment.slice(2)].join(' > ')}`);
  });
  parser.on('assert', ({ name, diag, time }) => {
    // tap calls a file that ran out of time by another name than its own.
    const path = diag?.expired ?? name;
    flush(
      `${path.replace(/^build\/(.*)\.js$/, '$1.ts')}${time === undefined ? '' : ` (${(time / 1000).toFixed(1)} s)`}`,
    );
  });
  parser.on('complete', () => {
    if (file.failed > 0) flush('the run as a whole');
  });
  return parser;
}

function emptyFile() {
  return { passed: 0, failed: 0, skipped: 0, failures: [], measured: [] };
}

/** Calls back for every comment below a parser, with the names of the subtests around it, the test file first. */
function followComments(parser, names, onComment) {
  parser.on('comment', (comment) => onComment(comment, names));
  parser.on('child', (child) => followComments(child, [...names, child.name], onComment));
}

/** Calls back for every assertion below a parser, with the names of the subtests around it, the test file first. */
function followAssertions(parser, names, onAssertion) {
  const sum = { failed: 0 };
  let subtest;
  parser.on('child', (child) => {
    subtest = followAssertions(child, [...names, child.name], onAssertion);
  });
  parser.on('assert', (result) => {
    const inside = subtest;
    subtest = undefined;
    if (!result.ok && !result.todo && !result.skip) sum.failed++;
    // The sum of a subtest is no assertion, unless it failed and nothing in it did: a file that crashed or ran out of
    // time, or a plan that was not kept.
    if (inside === undefined || (!result.ok && inside.failed === 0)) onAssertion(result, names);
  });
  parser.on('bailout', (reason) => {
    if (names.length === 0) onAssertion({ ok: false, name: `bailed out: ${reason}` }, names);
  });
  return sum;
}

function failureText(result, names) {
  const title = [...names.slice(1), result.name].join(' > ');
  // The source is a file away, and how tap caught an error or ran the file explains nothing.
  const { source, tapCaught, compare, stdio, cwd, externalID, jobId, command, args, at, ...details } =
    result.diag ?? {};
  const place = at === undefined ? [] : [`at: ${at.fileName}:${at.lineNumber}:${at.columnNumber}`];
  const lines = Object.entries(details).map(([name, value]) => {
    const text = typeof value === 'string' ? value : inspect(value, { depth: 8 });
    return text.includes('\n') ? `${name}:\n${text}` : `${name}: ${text}`;
  });
  const body = [...place, ...lines].join('\n').replace(/\n+$/, '');
  return `\n  not ok: ${title}\n${body.replaceAll(/^/gm, '    ')}\n\n`;
}
