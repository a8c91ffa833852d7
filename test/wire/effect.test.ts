import t from 'tap';
import { type Effect, effectOf } from '#src/wire/effect.js';
import { pick, seeded } from '../support/random.ts';

const statements: Record<Effect, readonly string[]> = {
  read: [
    'SELECT 1',
    'select 1',
    'SELECT * FROM t FOR UPDATE',
    'VALUES ROW(1)',
    'TABLE t',
    'SHOW TABLES',
    'DESCRIBE t',
    'DESC t',
    'EXPLAIN DELETE FROM t',
    "HELP 'x'",
    'USE shop',
    'CHECKSUM TABLE t',
    'WITH a AS (SELECT 1) SELECT * FROM a',
    'SELECT`a` FROM t',
    'SELECT/* x */1',
    "SELECT'a'",
  ],
  atomic: [
    'INSERT INTO t VALUES (1)',
    'Insert Into t Select 1',
    'UPDATE t SET a = 1',
    'DELETE FROM t',
    'REPLACE INTO t VALUES (1)',
    "LOAD DATA INFILE 'f' INTO TABLE t",
    'DO 1',
    'SET @a = 1',
    'SET SESSION sql_mode = DEFAULT',
    'CREATE TABLE t (a INT)',
    'CREATE OR REPLACE VIEW v AS SELECT 1',
    'ALTER TABLE t ADD b INT',
    'TRUNCATE t',
    'RENAME TABLE t TO u',
    'START TRANSACTION',
    'BEGIN',
    'BEGIN WORK',
    'COMMIT',
    'ROLLBACK',
    'SAVEPOINT a',
    'RELEASE SAVEPOINT a',
    'LOCK TABLES t READ',
    'UNLOCK TABLES',
    "SELECT 1 INTO OUTFILE '/f'",
    'SELECT a into @x FROM t',
    'WITH a AS (SELECT 1) DELETE FROM t WHERE b IN (SELECT * FROM a)',
    'with a as (select 1) update t set b = 1',
    'WITH a AS (SELECT 1) REPLACE INTO t SELECT * FROM a',
  ],
  partial: [
    'DROP TABLE a, b',
    'CREATE OR REPLACE TABLE t (a INT)',
    'create /* x */ or -- y\n replace temporary table t (a INT)',
    'CREATE OR REPLACE SEQUENCE s',
    'CREATE USER a, b',
    'CREATE ROLE a, b',
    'ALTER USER a, b ACCOUNT LOCK',
    'RENAME USER a TO b, c TO d',
    'OPTIMIZE TABLE t',
    'ANALYZE TABLE t',
    'GRANT SELECT ON t TO a',
    'FLUSH TABLES',
    'KILL 7',
    'HANDLER t OPEN',
    'XA COMMIT 0',
    'PREPARE p FROM ?',
    'SELECTED',
    'SELECT_ 1',
    'nonsense',
    '',
    ';',
    '1',
    "'SELECT 1'",
    '@SELECT',
  ],
  compound: [
    'CALL p()',
    'EXECUTE p',
    "EXECUTE IMMEDIATE 'SELECT 1'",
    'BEGIN NOT ATOMIC SELECT 1; END',
    'begin\n  not atomic SELECT 1; END',
    'BEGIN /* x */ NOT ATOMIC SELECT 1; END',
    'IF 1 THEN SELECT 1; END IF',
    'CASE WHEN 1 THEN SELECT 1; END CASE',
    'LOOP SELECT 1; END LOOP',
    'REPEAT SELECT 1; UNTIL 1 END REPEAT',
    'WHILE 0 DO SELECT 1; END WHILE',
    'FOR i IN 1..2 DO SELECT 1; END FOR',
    'SET STATEMENT max_statement_time = 1 FOR CALL p()',
    'set statement x = 1 for select 1',
  ],
};

/** Text that both servers ignore. */
const comments = [
  ' ',
  '\n\t\r\f\v',
  '/**/',
  '/* DROP */',
  '/* a * / b **/',
  '/*\n--*/',
  '-- DROP\n',
  '--\n',
  '--\tx\n',
  '# DROP\n',
  '#\n',
];

t.test('the first words of a statement tell what it may do', async (t) => {
  for (const [effect, texts] of Object.entries(statements)) {
    for (const sql of texts) t.equal(effectOf(sql), effect, sql);
  }
});

t.test('blanks, comments and parentheses before it are passed over', async (t) => {
  for (const comment of comments) {
    t.equal(effectOf(`${comment}SELECT 1`), 'read', JSON.stringify(comment));
    t.equal(effectOf(`${comment}UPDATE t SET a = 1`), 'atomic', JSON.stringify(comment));
    t.equal(effectOf(`${comment}CALL p()`), 'compound', JSON.stringify(comment));
  }
  t.equal(effectOf('((SELECT 1) UNION (SELECT 2))'), 'read');
  t.equal(effectOf('( /* x */ (\nSELECT 1))'), 'read');
  const random = seeded(t);
  for (let run = 0; run < 500; run++) {
    const before = Array.from({ length: random(8) }, () => pick(random, comments)).join('');
    const effect = pick(random, Object.keys(statements)) as Effect;
    const sql = `${before}${pick(random, statements[effect])}`;
    if (effectOf(sql) !== effect) t.equal(effectOf(sql), effect, JSON.stringify(sql));
  }
});

t.test('what only looks like a comment is none', async (t) => {
  for (const sql of ['--SELECT 1', '-SELECT 1', '/SELECT 1', '*/SELECT 1']) t.equal(effectOf(sql), 'partial', sql);
  t.equal(effectOf('/* SELECT 1'), 'partial', 'a comment without an end holds all');
  t.equal(effectOf('-- SELECT 1'), 'partial');
  t.equal(effectOf('# SELECT 1'), 'partial');
});

t.test('an executable comment may hold anything', async (t) => {
  for (const sql of ['/*! CALL p() */', '/*!50000 SELECT 1 */', '/*M! SELECT 1 */', '/*M!100000 CALL p() */']) {
    t.equal(effectOf(sql), 'compound', sql);
    t.equal(effectOf(` -- x\n${sql}`), 'compound');
  }
  t.equal(effectOf("SELECT 1 /*! INTO OUTFILE '/f' */"), 'atomic');
});

t.test('a statement of any size is judged in no time', async (t) => {
  const size = 16 * 1024 * 1024;
  for (const part of [' ', '(', '/**/', '#\n', '-- \n', 'x', '/*', '/*!', "'"]) {
    const text = part.repeat(size / part.length);
    const began = performance.now();
    const effects = [effectOf(text), effectOf(`${text}SELECT 1`), effectOf(`SELECT ${text}`), effectOf(`WITH ${text}`)];
    // A search that went back over the text would take hours.
    t.ok(performance.now() - began < 60_000, `${JSON.stringify(part)}: ${effects.join()}`);
  }
});
