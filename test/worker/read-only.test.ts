import t from 'tap';
import { readOnlyRefusal } from '#src/worker/read-only.js';

const MiB = 1024 * 1024;

t.test('reads, writes of rows and session settings are accepted', async (t) => {
  for (const sql of [
    'SELECT 1',
    'select 1',
    '  \t\r\n\v\fSeLeCt 1',
    '-- a remark\nSELECT 1',
    '--\tDROP TABLE t\nSELECT 1',
    '--\nSELECT 1',
    '# DROP TABLE t\nSELECT 1',
    '/* DROP TABLE t */ SELECT 1',
    '/**/SELECT 1',
    '/*+ a hint */ /* /*! */ SELECT 1',
    '(SELECT 1) UNION (SELECT 2)',
    '((/* a */( -- b\n(SELECT 1))))',
    'SELECT`a` FROM t',
    "SELECT'a'",
    'SELECT@a',
    'WITH a AS (SELECT 1) SELECT * FROM a',
    'VALUES (1)',
    'TABLE t',
    ...['SHOW TABLES', 'DESCRIBE t', 'DESC t', 'EXPLAIN SELECT 1', "HELP 'a'", 'CHECKSUM TABLE t', 'DO 1', 'USE a'],
    ...['INSERT INTO t VALUES (1)', 'UPDATE t SET a = 1', 'DELETE FROM t', 'REPLACE INTO t VALUES (1)'],
    ...['ANALYZE SELECT 1', 'ANALYZE FORMAT=JSON SELECT 1', 'ANALYZE (SELECT 1)', 'ANALYZE UPDATE t SET a = 1'],
    ...['SET NAMES utf8mb4', 'SET @a = 1', 'SET SESSION sql_mode = DEFAULT', 'SET autocommit = 0', 'SET ROLE DEFAULT'],
    'SET TRANSACTION ISOLATION LEVEL SERIALIZABLE',
    'SET @a = \'global warming\', @b = "the PASSWORD"',
    'SET max_statement_time = 1, old_passwords = 0, @my_global = 1, @globals = 2',
    "SELECT 'out of file', `into` FROM files",
    'SELECT 1 INTO @files',
    'SELECT outfile FROM t',
    ...['', ' ', ';', '-- nothing', '/* nothing */ ;'],
  ]) {
    t.equal(readOnlyRefusal({ sql }), null, sql);
  }
});

t.test('statements that could leave the transaction or bypass it are refused by name', async (t) => {
  const refused: [sql: string, reason: RegExp][] = [
    ...words('START BEGIN COMMIT ROLLBACK SAVEPOINT RELEASE XA', /transaction of its own/),
    ...words('CALL EXECUTE PREPARE IF CASE LOOP WHILE FOR REPEAT DECLARE', /end the read-only transaction/),
    ...words('CREATE ALTER DROP TRUNCATE RENAME GRANT REVOKE OPTIMIZE REPAIR LOAD', /it is a write/),
    ...words('LOCK UNLOCK FLUSH KILL INSTALL UNINSTALL SHUTDOWN RESTART HANDLER BINLOG CLONE IMPORT', /not known/),
    ...words('CACHE CHECK RESET PURGE CHANGE STOP BACKUP SIGNAL GET DEALLOCATE RETURN nonsense', /not known/),
    ['ANALYZE TABLE t', /^ANALYZE TABLE is refused/],
    ['ANALYZE TABLES t', /^ANALYZE TABLE/],
    ['ANALYZE LOCAL TABLE t', /^ANALYZE TABLE/],
    ['ANALYZE NO_WRITE_TO_BINLOG TABLE t', /^ANALYZE TABLE/],
    ['ANALYZE /* SELECT */ TABLE t', /^ANALYZE TABLE/],
    ['ANALYZE /*!TABLE*/ t', /^ANALYZE TABLE/],
    ['ANALYZE', /^ANALYZE TABLE/],
    ['/*! DROP TABLE t */', /executable comment/],
    ['/*!50000 SELECT */ 1', /executable comment/],
    ['/*M! DROP TABLE t */', /executable comment/],
    ['/* a */ (/*!COMMIT*/)', /executable comment/],
    ['/* not closed', /could not be made out/],
    ['--DROP TABLE t', /could not be made out/],
    ['--\u00a0\nSELECT 1', /could not be made out/],
    ['; SELECT 1', /could not be made out/],
    ['SELECTED', /^SELECTED is refused/],
    ['SELECTé', /^SELECTÉ is refused/],
    ['\u00a0SELECT 1', /not known/],
    ['selectx'.repeat(MiB), /^(SELECTX){9}S is refused/],
    ["SELECT 1 INTO OUTFILE '/a'", /OUTFILE/],
    ["SELECT 1 into/**/dumpfile '/a'", /OUTFILE/],
    ["SELECT 1 /*!50000INTO OUTFILE '/a'*/", /OUTFILE/],
    ["SELECT 1 INTO -- a\n# b\n/*! OUTFILE '/a' */", /OUTFILE/],
    ["SELECT 1e0INTO OUTFILE '/a'", /OUTFILE/],
    ["SELECT '\\', 1 INTO OUTFILE '/a' -- '", /OUTFILE/],
    ["TABLE t INTO OUTFILE '/a'", /OUTFILE/],
    ["WITH a AS (SELECT 1) SELECT * FROM a INTO OUTFILE '/a'", /OUTFILE/],
    ["(VALUES (1)) INTO OUTFILE '/a'", /OUTFILE/],
    ['SET GLOBAL a = 1', /word GLOBAL/],
    ['SET SESSION a = 1, global b = 2', /word GLOBAL/],
    ['SET @@global.a = 1', /word GLOBAL/],
    ['SET @@ /* a */ GLOBAL . a = 1', /word GLOBAL/],
    ['SET/**/GLOBAL/**/a = 1', /word GLOBAL/],
    ['SET /*!50000GLOBAL a = 1*/', /word GLOBAL/],
    ['SET /*!GLOBAL*/ a = 1', /word GLOBAL/],
    ["SET @a = '\\', GLOBAL a = 1, @b = '", /word GLOBAL/],
    ["SET @a = 1 /* ' */, GLOBAL a = 1 /* ' */", /word GLOBAL/],
    ["SET @a = 1 -- '\n, GLOBAL a = 1 -- '", /word GLOBAL/],
    ["SET @a = 1 # '\n, GLOBAL a = 1 # '", /word GLOBAL/],
    ["SET @`'` = 1, GLOBAL a = 1, @`'` = 2", /word GLOBAL/],
    ["SET @a = '''', GLOBAL a = 1, @b = \"'\"", /word GLOBAL/],
    ['SET PERSIST a = 1', /word PERSIST/],
    ['SET PERSIST_ONLY a = 1', /word PERSIST_ONLY/],
    ['SET @@persist.a = 1', /word PERSIST/],
    ["SET PASSWORD = 'a'", /word PASSWORD/],
    ["SET @a = 1, PASSWORD='a'", /word PASSWORD/],
    ['SET STATEMENT tx_read_only = 0 FOR DELETE FROM t', /word STATEMENT/],
    ['SET RESOURCE GROUP a FOR 1', /word RESOURCE/],
    ['SET DEFAULT ROLE NONE TO a', /DEFAULT ROLE/],
    ['SET @a = 1, DEFAULT /**/ ROLE NONE', /DEFAULT ROLE/],
    ['SET /*!50000DEFAULT*/ROLE NONE', /DEFAULT ROLE/],
  ];
  for (const [sql, reason] of refused) {
    const refusal = readOnlyRefusal({ sql });
    t.match(refusal, { errno: 1792, sqlState: '25006' }, sql.slice(0, 80));
    const [, said] = /^Cannot execute statement in a READ ONLY transaction \(--read_only\): (.*)$/.exec(
      refusal?.message ?? '',
    ) as RegExpExecArray;
    t.match(said, reason, sql.slice(0, 80));
  }
});

t.test('a refusal in a long text is found soon', async (t) => {
  const start = performance.now();
  for (const sql of [
    `SELECT ${'into '.repeat(3 * MiB)}`,
    `SET @a = ${'default '.repeat(2 * MiB)}`,
    `SET @a = ${"'".repeat(16 * MiB - 1)}`,
    `SET @a = ${`'"`.repeat(8 * MiB)}`,
    `${'/**/'.repeat(4 * MiB)}SELECT 1`,
    `${'('.repeat(16 * MiB)}SELECT 1`,
    `${'/* '.repeat(5 * MiB)}SELECT 1`,
    `${'-- \n'.repeat(4 * MiB)}SELECT 1`,
  ]) {
    readOnlyRefusal({ sql });
  }
  t.ok(performance.now() - start < 20_000, 'quadratic code would take hours');
});

function words(keywords: string, reason: RegExp): [string, RegExp][] {
  return keywords.split(' ').flatMap((keyword): [string, RegExp][] => [
    [keyword, reason],
    [`/* SELECT */ ( ${keyword.toLowerCase()} TABLE t`, reason],
  ]);
}
