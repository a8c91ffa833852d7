// Reads the TAP that one test file writes: counts its assertions, and keeps those that failed, with what tap knows about
// them, and what the tests have measured.

import { createRequire } from 'node:module';
import { inspect } from 'node:util';

// The parser comes with tap, whose own dependency it is.
const { Parser } = createRequire(createRequire(import.meta.url).resolve('tap'))('tap-parser');

/** Reads a stream of TAP to its end. */
export async function readResults(stream) {
  const results = { passed: 0, failed: 0, skipped: 0, failures: [], measured: [] };
  const parser = new Parser();
  followAssertions(parser, [], (result, names) => {
    const outcome = result.skip || result.todo ? 'skipped' : result.ok ? 'passed' : 'failed';
    results[outcome]++;
    if (outcome === 'failed') results.failures.push(failureText(result, names));
  });
  followComments(parser, [], (comment, names) => {
    if (/^# measured: /.test(comment)) results.measured.push([...names, comment.slice(2)].join(' > ').trimEnd());
  });
  const complete = new Promise((resolve) => parser.on('complete', resolve));
  stream.pipe(parser);
  await complete;
  return results;
}

/** Calls back for every comment below a parser, with the names of the subtests around it. */
function followComments(parser, names, onComment) {
  parser.on('comment', (comment) => onComment(comment, names));
  parser.on('child', (child) => followComments(child, [...names, child.name], onComment));
}

/** Calls back for every assertion below a parser, with the names of the subtests around it. */
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
    // The sum of a subtest is no assertion, unless it failed and nothing in it did: a test that ran out of time, or a plan
    // that was not kept.
    if (inside === undefined || (!result.ok && inside.failed === 0)) onAssertion(result, names);
  });
  parser.on('bailout', (reason) => {
    if (names.length === 0) onAssertion({ ok: false, name: `bailed out: ${reason}` }, names);
  });
  return sum;
}

function failureText(result, names) {
  const title = [...names, result.name].join(' > ');
  // The source is a file away, and how tap caught an error explains nothing.
  const { source, tapCaught, compare, at, ...details } = result.diag ?? {};
  const place = at === undefined ? [] : [`at: ${at.fileName}:${at.lineNumber}:${at.columnNumber}`];
  const lines = Object.entries(details).map(([name, value]) => {
    const text = typeof value === 'string' ? value : inspect(value, { depth: 8 });
    return text.includes('\n') ? `${name}:\n${text}` : `${name}: ${text}`;
  });
  const body = [...place, ...lines].join('\n').replace(/\n+$/, '');
  return `\n  not ok: ${title}\n${body.replaceAll(/^/gm, '    ')}\n\n`;
}
